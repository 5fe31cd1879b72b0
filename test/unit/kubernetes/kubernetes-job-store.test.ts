import { describe, expect, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import type { AccountNamespaces } from "../../../src/domain/ports/account-namespaces.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { JobNotFound } from "../../../src/domain/ports/job-store.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall, KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createKubernetesJobStore } from "../../../src/kubernetes/kubernetes-job-store.ts";
import { jobFromResource, type ScheduledJob } from "../../../src/kubernetes/scheduled-job.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { FakeTime } from "../controller/controller-world.ts";
import { aSpec } from "../domain/decide-builders.ts";

const ACCOUNT = "account-of-team";
const STORED: ScheduledJob = {
  metadata: {
    name: "job",
    namespace: "team",
    uid: "uid",
    resourceVersion: "7",
    generation: 1,
    creationTimestamp: "2026-11-23T12:00:00Z",
  },
  spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
};

/** A store with an API server that answers so. */
function storeOn(
  answer: (asked: ApiCall) => unknown,
  namespaces?: readonly string[],
  bindings: Partial<AccountNamespaces> = {},
) {
  const time = new FakeTime(0);
  return createKubernetesJobStore({
    client: {
      call: async (asked: ApiCall) => answer(asked),
    } as Partial<KubernetesClient> as KubernetesClient,
    accountNamespaces: { ...namespaceAccounts(["team"]), ...bindings },
    monotonic: () => time.now(),
    timers: time,
    random: () => 0,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    namespaces,
  });
}
const refuse = (code: number, causes: { reason: string }[] = []): never => {
  throw new ApiError(code, { kind: "Status", code, details: { causes } }, "asked");
};
const change = { spec: aSpec({ name: "changed" }), id: "job", account: ACCOUNT };

test("a job that is deleted between a change's look and its write is not found", async () => {
  const store = storeOn(({ verb }) => (verb === "get" ? STORED : refuse(404)));
  const changed = store.update(jobFromResource(STORED, ACCOUNT), change.spec);
  await expect(changed).rejects.toThrow(JobNotFound);
});

test("a change writes inside a group what it changes: no default, and nothing of a newer release, comes or goes", async () => {
  const webhook = { url: "https://example.com/", newer: 1 };
  const stored = { ...STORED, spec: { ...STORED.spec, webhook } };
  const written: unknown[] = [];
  const store = storeOn(({ verb, body }) => {
    if (verb === "update") written.push((body as ScheduledJob).spec);
    return stored;
  });
  const job = jobFromResource(stored, ACCOUNT);
  const { target } = job.spec;
  if (target.kind !== "webhook") throw new Error("it was one a moment ago");
  await store.update(job, { ...job.spec, target: { ...target, payload: '{"a":1}' } });
  expect(written).toEqual([{ ...stored.spec, webhook: { ...webhook, payload: { a: 1 } } }]);
});

test("a job that somebody else's finalizer keeps is not found", async () => {
  const metadata = { ...STORED.metadata, deletionTimestamp: "2026-11-23T12:00:05Z" };
  const store = storeOn(() => ({ ...STORED, metadata }));
  expect(await store.get(ACCOUNT, "job")).toBeUndefined();
});

test.each(["..", ".", "a/b", "A"])(
  "nobody is asked for %s: as a path it may name something else",
  async (id) => {
    const asked: ApiCall[] = [];
    expect(await storeOn((each) => asked.push(each)).get(ACCOUNT, id)).toBeUndefined();
    expect(asked).toEqual([]);
  },
);

test.each([
  { why: "is gone", answer: () => refuse(404) },
  { why: "is going", answer: () => refuse(403, [{ reason: "NamespaceTerminating" }]) },
])("where the account's namespace $why, no job is made, and it is said why", async ({ answer }) => {
  const made = storeOn(answer).create(change);
  await expect(made).rejects.toThrow(InvalidInput);
  await expect(made).rejects.toThrow("bound to no existing namespace");
});

/** The ping of a store of two namespaces: those of `there` exist and refuse, those of `listed` may be listed. */
const pinged = (there: readonly string[], listed: readonly string[] = []) =>
  storeOn(
    ({ path }) => {
      if (listed.some((each) => path.includes(`/${each}/`))) return { metadata: {}, items: [] };
      if (path.endsWith("/scheduledjobs")) return refuse(403);
      const found = there.some((each) => path.endsWith(`/${each}`));
      return found ? { metadata: { uid: "uid" } } : refuse(404);
    },
    ["a", "b"],
  ).ping();

test("a store of several namespaces answers when one of them may be listed, or all are gone", async () => {
  await expect(pinged(["a", "b"], ["b"])).resolves.toBeUndefined();
  await expect(pinged([])).resolves.toBeUndefined();
});

test("but not when none may be listed, and one is there", async () => {
  await expect(pinged(["b"])).rejects.toThrow("none of the watched namespaces can be listed");
});

describe("a job of which nobody can say whose it is", () => {
  const unknown = { bindingOf: () => Promise.reject(new Error("PostgreSQL is away")) };

  test("is taken back, and no other of its name", async () => {
    const asked: ApiCall[] = [];
    const store = storeOn((each) => asked.push(each) && STORED, undefined, unknown);
    await expect(store.create(change)).rejects.toThrow("PostgreSQL is away");
    expect(asked.map(({ verb }) => verb)).toEqual(["create", "delete"]);
    expect(asked[1]).toMatchObject({
      path: "/apis/carillon.dev/v1/namespaces/team/scheduledjobs/job",
      body: { preconditions: { uid: "uid" } },
    });
  });

  test("and can't be taken back is named to whoever reads the log", async () => {
    const store = storeOn(
      ({ verb }) => (verb === "delete" ? refuse(500) : STORED),
      undefined,
      unknown,
    );
    const error: unknown = await store.create(change).catch((each: unknown) => each);
    expect(error).toMatchObject({
      name: "DependencyUnavailable",
      cause: { message: expect.stringContaining("team/job was made for no account") as string },
    });
  });
});

test("an account that is moved all the time is asked to try again, and nothing stays behind", async () => {
  let moves = 0;
  const [made, deleted] = [[] as string[], [] as string[]];
  const store = storeOn(
    ({ verb, path }) => {
      const namespace = path.split("/")[5] ?? "";
      (verb === "create" ? made : deleted).push(namespace);
      return { ...STORED, metadata: { ...STORED.metadata, namespace } };
    },
    undefined,
    { bindingOf: async () => ({ namespace: `next-${(moves += 1)}`, leaving: false }) },
  );
  await expect(store.create(change)).rejects.toThrow(DependencyUnavailable);
  expect(made).toEqual(["team", "next-1", "next-2"]);
  expect(deleted).toEqual(made);
});
