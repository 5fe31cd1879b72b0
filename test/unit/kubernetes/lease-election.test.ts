import { afterEach, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createLeaseElection } from "../../../src/kubernetes/lease-election.ts";
import type { Lease } from "../../../src/kubernetes/lease.ts";
import { FakeTime } from "../controller/controller-world.ts";
import { at } from "../domain/decide-builders.ts";

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

/** One candidate with the default times, in a time that only the test moves, and an API server with one Lease. */
function world(spec?: Lease["spec"]) {
  const time = new FakeTime(at("12:00"));
  const server = {
    spec,
    version: 1,
    /** How long a call takes. */
    delayMs: 0,
    /** Another candidate, which is quicker at the next write. */
    rival: undefined as string | undefined,
    silent: false,
    /** It refuses connections, as while it restarts. */
    down: false,
    /** It answers, late, that it cannot. */
    broken: false,
    calls: 0,
    metadata: { name: "lease", namespace: "a", labels: { "somebody's": "label" } },
    overwrite(change: NonNullable<Lease["spec"]>) {
      server.spec = { ...server.spec, ...change };
      server.version += 1;
    },
  };
  const lease = () => ({
    metadata: { ...server.metadata, resourceVersion: String(server.version) },
    spec: server.spec,
  });
  const answer = ({ verb, body }: ApiCall) => {
    if (server.broken) throw new DependencyUnavailable("kubernetes");
    if (verb === "get" && server.spec === undefined) throw new ApiError(404, undefined, "get");
    if (verb === "get") return lease();
    const { metadata, spec: wanted } = body as Lease;
    if (server.rival !== undefined) {
      server.overwrite({ holderIdentity: server.rival, leaseDurationSeconds: 15 });
      server.rival = undefined;
    }
    if (verb === "create" && server.spec !== undefined)
      throw new ApiError(409, { kind: "Status", reason: "AlreadyExists" }, "create");
    if (verb === "update" && metadata.resourceVersion !== String(server.version))
      throw new ApiError(409, undefined, "update");
    server.metadata = metadata as typeof server.metadata;
    server.overwrite(wanted ?? {});
    return lease();
  };
  const said: { level: string; text: unknown; err?: unknown }[] = [];
  const say =
    (level: string) =>
    (...words: [string] | [{ err?: unknown }, string]) => {
      const [about, text] = words.length === 1 ? [{}, words[0]] : words;
      said.push({ level, text, err: about.err });
    };
  const call = async (asked: ApiCall) => {
    server.calls += 1;
    if (server.down) throw new DependencyUnavailable("kubernetes");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const away = () => reject(new DependencyUnavailable("kubernetes"));
    const late = time.after(asked.timeoutMs ?? Infinity, away);
    const { signal } = asked;
    signal?.addEventListener("abort", () => reject(signal.reason as Error));
    if (server.delayMs > 0) time.after(server.delayMs, resolve);
    else if (!server.silent) resolve();
    await promise.finally(() => late.cancel());
    return answer(asked);
  };
  const election = createLeaseElection({
    client: { call } as Pick<KubernetesClient, "call"> as KubernetesClient,
    namespace: "a",
    name: "lease",
    identity: "me",
    monotonic: () => time.now(),
    timers: time,
    random: () => 0,
    wallClock: () => time.now(),
    log: { debug: say("debug"), info: say("info"), warn: say("warn") },
  });
  /** The changes of leadership, and the holder in the record at that moment. */
  const changes: { leading: boolean; holder: string | undefined; after: number }[] = [];
  election.onChange((leading) => {
    const after = (time.now() - at("12:00")) / 1_000;
    changes.push({ leading, holder: server.spec?.holderIdentity, after });
  });
  changes.length = 0;
  const end = new AbortController();
  const able = { fit: true };
  const done = election.run(end.signal, () => able.fit);
  const stop = async () => {
    end.abort();
    server.silent = false;
    await time.advanceTo(time.now() + 20_000);
    await done;
  };
  running.push(stop);
  const seconds = (count: number) => time.advanceTo(at("12:00") + count * 1_000);
  return { server, said, election, able, changes, stop, seconds };
}

test.each([
  { lease: "that was given up", spec: { holderIdentity: "", leaseDurationSeconds: 600 } },
  { lease: "that names nobody", spec: { leaseDurationSeconds: 600 } },
  { lease: "that says no duration", spec: { holderIdentity: "other" } },
])("a lease $lease is free at once", async ({ spec }) => {
  const { changes, seconds } = world(spec);
  await seconds(0);
  expect(changes).toEqual([{ leading: true, holder: "me", after: 0 }]);
});

test("leadership lasts from when a renewal was sent, not from when it was answered", async () => {
  const { server, election, seconds } = world();
  await seconds(1);
  server.delayMs = 4_000;
  await seconds(6.5);
  [server.delayMs, server.silent] = [0, true];
  await seconds(11.9);
  expect(election.holds()).toBe(true);
  await seconds(12.1);
  expect(election.holds()).toBe(false);
});

test("a leader that nobody answers steps down when its time to renew is over", async () => {
  const { server, changes, seconds } = world();
  await seconds(1);
  server.silent = true;
  await seconds(11.9);
  expect(changes).toMatchObject([{ leading: true }]);
  await seconds(12.1);
  expect(changes).toMatchObject([{ leading: true }, { leading: false, after: 12 }]);
});

test("a leader that cannot renew for a few seconds leads on", async () => {
  const { server, said, election, changes, seconds } = world();
  await seconds(1);
  server.down = true;
  await seconds(9);
  expect(election.holds()).toBe(true);
  server.down = false;
  await seconds(10);
  server.silent = true;
  // It has renewed at 10 s.
  await seconds(19);
  expect(election.holds()).toBe(true);
  expect(changes).toEqual([{ leading: true, holder: "me", after: 0 }]);
  expect(said.filter(({ level }) => level === "warn")).toHaveLength(1);
});

test("a leader that another has overwritten steps down at its next renewal, and leaves it the lease", async () => {
  const { server, election, changes, seconds } = world();
  await seconds(1);
  server.overwrite({ holderIdentity: "intruder" });
  await seconds(3);
  expect(election.holds()).toBe(false);
  expect(changes).toMatchObject([{ leading: true }, { leading: false, after: 2 }]);
  expect(server.spec?.holderIdentity).toBe("intruder");
  await seconds(18);
  expect(changes).toMatchObject([{}, {}, { leading: true, holder: "me" }]);
});

test.each([5, 30])(
  "another's lease of %d seconds is outwaited, whatever ours would be",
  async (duration) => {
    const { changes, seconds } = world({ holderIdentity: "other", leaseDurationSeconds: duration });
    await seconds(duration - 0.1);
    expect(changes).toEqual([]);
    await seconds(duration + 2.1);
    expect(changes).toMatchObject([{ leading: true, holder: "me" }]);
  },
);

test("another's lease does not run out while it is renewed, whatever its clock says", async () => {
  const { server, changes, seconds } = world({ holderIdentity: "other", leaseDurationSeconds: 15 });
  for (let second = 2; second <= 60; second += 2) {
    await seconds(second);
    server.overwrite({ renewTime: `2020-01-01T00:00:${second % 4 === 0 ? "00" : "10"}.000000Z` });
  }
  await seconds(74);
  expect(changes).toEqual([]);
  await seconds(79);
  expect(changes).toMatchObject([{ leading: true, holder: "me" }]);
});

test("a leader that is not fit gives the lease up, and stands anew when it is", async () => {
  const { server, able, changes, seconds } = world();
  await seconds(1);
  const { leaseTransitions = 0 } = server.spec ?? {};
  able.fit = false;
  await seconds(4);
  expect(changes).toMatchObject([{ leading: true }, { leading: false, after: 2 }]);
  expect(server.spec).toMatchObject({ holderIdentity: "", leaseTransitions });
  able.fit = true;
  await seconds(5);
  expect(changes.at(-1)).toMatchObject({ leading: true, holder: "me" });
  expect(server.spec).toMatchObject({ leaseTransitions: leaseTransitions + 1 });
  expect(server.spec?.acquireTime).not.toBe("2026-03-10T12:00:00.000000Z");
});

test.each([
  { lease: "that nobody has made yet", spec: undefined },
  { lease: "that is free", spec: { holderIdentity: "" } },
])(
  "a candidate that loses the race for a lease $lease has nothing to complain of",
  async ({ spec }) => {
    const { server, said, changes, seconds } = world(spec);
    server.rival = "other";
    await seconds(1);
    const lost = { level: "debug", text: "another process was quicker to take the lease" };
    expect(said).toEqual([{ ...lost, err: undefined }]);
    await seconds(5);
    expect(changes).toEqual([]);
    expect(said.slice(1)).toMatchObject([{ level: "info", text: "another process leads" }]);
  },
);

test("an outage is complained of once", async () => {
  const { server, said, seconds } = world({ holderIdentity: "other", leaseDurationSeconds: 600 });
  await seconds(1);
  server.silent = true;
  await seconds(60);
  expect(said.filter(({ level }) => level === "warn")).toMatchObject([
    { text: "the lease could not be read or written", err: expect.any(DependencyUnavailable) },
  ]);
});

test("a leader's complaint says who did not answer, and for how long", async () => {
  const { server, said, seconds } = world();
  await seconds(1);
  server.silent = true;
  await seconds(12.1);
  const [first] = said.filter(({ level }) => level === "warn");
  expect(first).toMatchObject({
    text: "the lease could not be read or written",
    err: { message: "kubernetes is unavailable", cause: { message: "no answer within 10 s" } },
  });
});

test("who is to end while it acquires the lease never leads, and gives it up", async () => {
  const { server, changes, stop } = world({ holderIdentity: "" });
  server.delayMs = 100;
  await stop();
  expect(changes).toEqual([]);
  expect(server.spec?.holderIdentity).toBe("");
  expect(server.version).toBeGreaterThan(1);
});

test("who listens no more hears nothing more", async () => {
  const { election, stop, seconds } = world();
  const heard: boolean[] = [];
  const end = election.onChange((leading) => heard.push(leading));
  await seconds(1);
  end();
  await stop();
  expect(heard).toEqual([false, true]);
});

test("what others wrote on the Lease stays there", async () => {
  const { server, stop, seconds } = world({ holderIdentity: "" });
  await seconds(7);
  await stop();
  expect(server.metadata.labels).toEqual({ "somebody's": "label" });
});

test("renewals and the release keep the number of a leadership, and when it began", async () => {
  const { server, stop, seconds } = world({ holderIdentity: "", leaseTransitions: 4 });
  await seconds(1);
  const began = server.spec;
  expect(began).toMatchObject({ leaseTransitions: 5, acquireTime: "2026-03-10T12:00:00.000000Z" });
  // Somebody else writes, too, for instance a label.
  server.overwrite({});
  await seconds(7);
  expect(server.spec).toEqual({ ...began, renewTime: "2026-03-10T12:00:06.000000Z" });
  await stop();
  expect(server.spec).toMatchObject({ holderIdentity: "", leaseTransitions: 5 });
});

test("who ends stops leading before the lease is free", async () => {
  const { server, changes, stop, seconds } = world();
  await seconds(1);
  await stop();
  expect(changes).toMatchObject([{ leading: true }, { leading: false, holder: "me" }]);
  expect(server.spec?.holderIdentity).toBe("");
});

test("who ends while the lease cannot be renewed tries no more, except once to give it up", async () => {
  const { server, stop, seconds } = world();
  await seconds(1);
  Object.assign(server, { broken: true, delayMs: 100, calls: 0 });
  await seconds(2.05);
  expect(server.calls).toBe(1);
  await stop();
  // The renewal under way looks at the lease, and the release does.
  expect(server.calls).toBe(3);
});
