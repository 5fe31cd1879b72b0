import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { createLeaseElection } from "../../../src/kubernetes/lease-election.ts";
import type { Lease } from "../../../src/kubernetes/lease.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { connect } from "../../kubernetes/cluster.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { until } from "../../until.ts";

/** As in test/kubernetes/elector.ts: the times of production (15, 10 and 2 s), divided by five. */
const LEASE_MS = 3_000;
/** Time for calls on a busy machine. */
const SLACK_MS = 6_000;
/** A retry period with its jitter. */
const RETRY_MS = 400 * 2.2 + SLACK_MS;

interface Candidate {
  process: ChildProcess;
  lines: { text: string; at: bigint }[];
  leads(): boolean;
}

describe.runIf(inject("tokenSecret") !== "")("leader election", () => {
  let controlPlane: OwnControlPlane;
  let serial = 0;
  let lease = "";
  const candidates: Candidate[] = [];

  beforeAll(async () => {
    controlPlane = await anotherControlPlane();
    return () => controlPlane.stop();
  });
  afterEach(() => {
    for (const candidate of candidates.splice(0)) candidate.process.kill("SIGKILL");
  });

  function newLease(): void {
    lease = `carillon-${(serial += 1)}`;
  }

  /** Resolves with its first line: the time of a process's start does not belong to an election. */
  async function stand(identity: string, skewMs = 0): Promise<Candidate> {
    const script = join(import.meta.dirname, "../../kubernetes/elector.ts");
    const args = [script, controlPlane.kubeconfig, lease, identity, String(skewMs)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
    const lines: Candidate["lines"] = [];
    createInterface({ input: child.stdout }).on("line", (line) => {
      const space = line.indexOf(" ");
      lines.push({ at: BigInt(line.slice(0, space)), text: line.slice(space + 1) });
    });
    const candidate = {
      process: child,
      lines,
      leads: () => lines.at(-1)?.text === "leading",
    };
    candidates.push(candidate);
    await until(`a word of ${identity}`, () => lines.length > 0, 45_000);
    return candidate;
  }

  /** Overwrites the Lease as an operator does, whatever its version is. */
  async function overwrite(
    change: NonNullable<Lease["spec"]> | { acquireTime: null },
  ): Promise<void> {
    const client = connect(controlPlane.kubeconfig);
    const path = `/apis/coordination.k8s.io/v1/namespaces/default/leases/${lease}`;
    const patch = { verb: "patch", resource: "leases", path, body: { spec: change } } as const;
    await client.call(patch);
    await client.close();
  }

  async function record(): Promise<NonNullable<Lease["spec"]>> {
    const client = connect(controlPlane.kubeconfig);
    try {
      const path = `/apis/coordination.k8s.io/v1/namespaces/default/leases/${lease}`;
      return (await client.call<Lease>({ verb: "get", resource: "leases", path })).spec ?? {};
    } finally {
      await client.close();
    }
  }

  /** Starts two candidates, of which the first leads. */
  async function leaderAndFollower(skewMs = 0): Promise<[Candidate, Candidate]> {
    newLease();
    const leader = await stand("a");
    await until("a leader", () => leader.leads());
    return [leader, await stand("b", skewMs)];
  }

  test("kill -9: the other leads within the lease duration and a retry, not before", async () => {
    const [leader, follower] = await leaderAndFollower();
    // The time of the last renewal before the leader's end depends on the machine, too.
    const { renewTime = "" } = await record();
    leader.process.kill("SIGKILL");
    await until("a new leader", () => follower.leads(), LEASE_MS + RETRY_MS);
    expect(Date.now() - Date.parse(renewTime)).toBeGreaterThanOrEqual(LEASE_MS);
    expect(await record()).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
  });

  test("SIGTERM: the lease is released, and taken over at once", async () => {
    const [leader, follower] = await leaderAndFollower();
    leader.process.kill("SIGTERM");
    await until("the release", () => leader.lines.at(-1)?.text === "released");
    expect((await record()).holderIdentity).not.toBe("a");
    await until("a new leader", () => follower.leads(), RETRY_MS);
    const lost = leader.lines.find(
      (line) => line.text === "not leading" && line !== leader.lines[0],
    );
    const won = follower.lines.at(-1);
    expect(lost?.at).toBeLessThan(won?.at ?? 0n);
  });

  test("stopped and continued: it knows at once that it leads no more", async () => {
    const [leader, follower] = await leaderAndFollower();
    leader.process.kill("SIGSTOP");
    await until("a new leader", () => follower.leads(), LEASE_MS + RETRY_MS);
    const before = leader.lines.length;
    leader.process.kill("SIGCONT");
    await until("stepping down", () =>
      leader.lines.slice(before).some((line) => line.text === "not leading"),
    );
    // After it woke up it never said that it leads.
    expect(leader.lines.slice(before).map((line) => line.text)).not.toContain("leading");
    expect(leader.lines.slice(before)[0]?.text).toMatch(/holds no more|not leading/);
    expect(follower.leads()).toBe(true);
    expect(await record()).toMatchObject({ holderIdentity: "b" });
  });

  test("the API server restarts: whoever leads then, it is one, and the record says so", async () => {
    const [leader, follower] = await leaderAndFollower();
    await controlPlane.restart();
    // Compared as a whole, because the first leader may lose leadership to the other.
    const look = async () =>
      `${(await record()).holderIdentity} ${leader.leads()} ${follower.leads()}`;
    await expect
      .poll(look, { timeout: LEASE_MS + RETRY_MS })
      .toMatch(/^(a true false|b false true)$/);
  });

  test("the API server hangs: the leader steps down by itself, and one leads afterwards", async () => {
    const [leader, follower] = await leaderAndFollower();
    controlPlane.apiServer.pause();
    await until(
      "the end of trust",
      () => leader.lines.some((line) => line.text === "holds no more"),
      LEASE_MS + SLACK_MS,
    );
    expect(follower.leads()).toBe(false);
    controlPlane.apiServer.resume();
    const one = () => Number(leader.leads()) + Number(follower.leads()) === 1;
    await until("one leader", one, 2 * LEASE_MS + RETRY_MS);
  });

  test("somebody else writes the record: the leader steps down, and outwaits the intruder", async () => {
    newLease();
    const leader = await stand("a");
    await until("a leader", () => leader.leads());
    await overwrite({ holderIdentity: "intruder", leaseTransitions: 7 });
    await until("stepping down", () => !leader.leads(), RETRY_MS);
    await until("leading again", () => leader.leads(), LEASE_MS + RETRY_MS);
    expect(await record()).toMatchObject({ holderIdentity: "a", leaseTransitions: 8 });
  });

  test("a record that can count no further is taken all the same", async () => {
    newLease();
    const client = connect(controlPlane.kubeconfig);
    await client.call({
      verb: "create",
      resource: "leases",
      path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
      body: { metadata: { name: lease }, spec: { leaseTransitions: 2 ** 31 - 1 } },
    });
    await client.close();
    const leader = await stand("a");
    await until("a leader", () => leader.leads(), RETRY_MS);
    expect(await record()).toMatchObject({ holderIdentity: "a", leaseTransitions: 1 });
  });

  test("a record that does not say since when its holder leads is renewed", async () => {
    newLease();
    const leader = await stand("a");
    await until("a leader", () => leader.leads());
    await overwrite({ acquireTime: null });
    await until("a renewal", async () => (await record()).acquireTime !== undefined);
    expect(await record()).toMatchObject({ holderIdentity: "a", leaseTransitions: 0 });
    expect(leader.leads()).toBe(true);
  });

  const SKEWS = [
    { title: "an hour ahead", skewMs: 3_600_000 },
    { title: "a day behind", skewMs: -86_400_000 },
  ];
  test.each(SKEWS)(
    "a follower whose clock is $title takes nothing from a living leader",
    async ({ skewMs }) => {
      const [leader, follower] = await leaderAndFollower(skewMs);
      const { renewTime } = await record();
      // Long enough for three renewals, and for a naive comparison of clocks to go wrong.
      await until("a renewal", async () => {
        const now = await record();
        expect(now.holderIdentity).toBe("a");
        return now.renewTime !== renewTime;
      });
      expect(follower.leads()).toBe(false);
      leader.process.kill("SIGKILL");
      await until("a new leader", () => follower.leads(), LEASE_MS + RETRY_MS);
    },
  );

  test("of five candidates at once, one leads", async () => {
    newLease();
    const all = await Promise.all(["a", "b", "c", "d", "e"].map((identity) => stand(identity)));
    await until("a leader", () => all.some((candidate) => candidate.leads()));
    expect(all.filter((candidate) => candidate.leads())).toHaveLength(1);
  });

  test("settings that cannot work are refused", () => {
    const client = connect(controlPlane.kubeconfig);
    const log = createLogger({ level: "silent" });
    const common = { client, namespace: "default", name: "x", log, ...realTime };
    const create = (settings: object) => () =>
      createLeaseElection({ ...common, identity: "a", wallClock: Date.now, ...settings });
    expect(create({ leaseDurationMs: 10_000 })).toThrow("greater than renewDeadlineMs");
    expect(create({ renewDeadlineMs: 2_000 })).toThrow("1.2 times retryPeriodMs");
    expect(create({ leaseDurationMs: 15_500 })).toThrow("whole seconds");
    expect(create({ retryPeriodMs: 0 })).toThrow("greater than zero");
    expect(create({ identity: "" })).toThrow("identity");
  });
});
