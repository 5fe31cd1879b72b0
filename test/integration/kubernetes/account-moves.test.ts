import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createAccountBinding } from "../../../src/kubernetes/account-binding.ts";
import { createAccountNamespaces } from "../../../src/kubernetes/account-namespaces.ts";
import type { ApiCall } from "../../../src/kubernetes/client.ts";
import type { ResourceList } from "../../../src/kubernetes/list-resources.ts";
import { specFromResource } from "../../../src/kubernetes/scheduled-job.ts";
import { jobsPath } from "../../../src/kubernetes/scope.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const kubeconfig = inject("kubeconfig");
const RESOURCE = {
  schedule: { cron: "0 3 * * *" },
  webhook: { url: "https://example.com/" },
};
const SPEC = specFromResource(RESOURCE, "job");

describe.runIf(kubeconfig !== "")("while an account moves to another namespace", () => {
  let cluster: ReturnType<typeof connect>;
  let database: TestDatabase;
  let pool: Pool;
  beforeAll(async () => {
    cluster = connect(kubeconfig);
    [database] = await Promise.all([createTestDatabase(), installCrd(cluster)]);
    pool = createPool({ url: database.url, applicationName: "moves test" });
  });
  afterAll(async () => {
    await pool?.end();
    await database?.drop();
    await cluster?.close();
  });

  /** `looked` runs when the namespace has been found empty and before the account leaves it. */
  function accountsWith({ looked }: { looked?: () => Promise<void> } = {}) {
    const binding = createAccountBinding({ client: cluster });
    return createAccounts({
      pool,
      async onLeave(namespace, uid) {
        await binding.leave(namespace, uid);
        await looked?.();
      },
    });
  }

  /**
   * A job store of another process than the one that binds. In its cache nothing gets old. `answered` runs when the API
   * server has answered a call.
   */
  function otherProcess(answered: (call: ApiCall) => Promise<void> = async () => undefined) {
    const client: typeof cluster = {
      ...cluster,
      async call<T>(call: ApiCall) {
        const answer = await cluster.call<T>(call);
        await answered(call);
        return answer;
      },
    };
    const accountNamespaces = createAccountNamespaces({
      accounts: accountsWith(),
      client,
      monotonic: () => 1_000,
      timers: realTime.timers,
    });
    return { ...jobStore(cluster, accountNamespaces, { client }), accountNamespaces };
  }

  const apply = (namespace: string, name: string) =>
    cluster.call({
      verb: "create",
      resource: "scheduledjobs",
      path: jobsPath(namespace),
      body: {
        apiVersion: "carillon.dev/v1",
        kind: "ScheduledJob",
        metadata: { name },
        spec: RESOURCE,
      },
    });
  async function jobsIn(namespace: string): Promise<string[]> {
    const path = jobsPath(namespace);
    const list = { verb: "list", resource: "scheduledjobs", path } as const;
    const { items } = await cluster.call<ResourceList>(list);
    return items.map(({ metadata }) => metadata.name);
  }

  let made = 0;
  /** An account in `from`, and a process that knows it to be there. */
  async function settled(answered?: (call: ApiCall) => Promise<void>) {
    const [from, to] = await Promise.all([
      createNamespace(cluster, "from"),
      createNamespace(cluster, "to"),
    ]);
    const name = `moves ${(made += 1)}`;
    const { id: account } = await accountsWith().create({
      name,
      namespace: from.name,
      namespaceUid: from.uid,
    });
    const other = otherProcess(answered);
    expect(await other.accountNamespaces.namespaceOf(account)).toBe(from.name);
    const move = (how: Parameters<typeof accountsWith>[0] = {}) =>
      accountsWith(how).bind(account, to.name, to.uid);
    return { account, from, to, other, move };
  }

  test("a process that has not heard of it makes jobs in the new one", async () => {
    const { account, from, to, other, move } = await settled();
    await move();
    expect(await other.accountNamespaces.namespaceOf(account)).toBe(from.name);
    const job = await other.create({ account, id: "job", spec: SPEC });
    expect([await jobsIn(from.name), await jobsIn(to.name)]).toEqual([[], ["job"]]);
    expect(await other.get(account, "job")).toEqual(job);
  });

  test("and neither shows what is made in the old one since, nor takes it for a job of the account", async () => {
    const { account, from, to, other, move } = await settled();
    const third = otherProcess();
    await third.accountNamespaces.namespaceOf(account);
    const fourth = otherProcess();
    await fourth.accountNamespaces.namespaceOf(account);
    await move();
    await apply(from.name, "job");
    expect(await other.get(account, "job")).toBeUndefined();
    expect((await third.list({ account, limit: 10 })).jobs).toEqual([]);
    await fourth.create({ account, id: "job", spec: SPEC });
    expect([await jobsIn(from.name), await jobsIn(to.name)]).toEqual([["job"], ["job"]]);
  });

  test("a namespace that has gone, or was bound late, is no reason to refuse a job", async () => {
    const { account, other } = await settled();
    const { name, uid } = await createNamespace(cluster, "next");
    await accountsWith().bind(account, "no-such-namespace", "");
    await expect(other.create({ account, id: "a", spec: SPEC })).rejects.toThrow(
      "bound to no existing namespace",
    );
    await accountsWith().bind(account, name, uid);
    await other.create({ account, id: "a", spec: SPEC });
    expect(await jobsIn(name)).toEqual(["a"]);
  });

  test("a job made after the look for jobs is taken back, and the account moves", async () => {
    const { account, from, to, other, move } = await settled();
    const outcomes: unknown[] = [];
    await move({
      async looked() {
        const creation = other.create({ account, id: "job", spec: SPEC });
        outcomes.push(await creation.catch((error: unknown) => error));
      },
    });
    expect(outcomes).toEqual([expect.any(DependencyUnavailable)]);
    expect([await jobsIn(from.name), await jobsIn(to.name)]).toEqual([[], []]);
    await other.create({ account, id: "job", spec: SPEC });
    expect(await jobsIn(to.name)).toEqual(["job"]);
  });

  test("a job made before the look keeps the account", async () => {
    let moved: Promise<unknown> | undefined;
    const { account, from, other, move } = await settled(async ({ verb }) => {
      if (verb === "create") await (moved = move().catch((error: unknown) => error));
    });
    await other.create({ account, id: "job", spec: SPEC });
    expect(await moved).toMatchObject({ name: "NamespaceInUse" });
    expect(await jobsIn(from.name)).toEqual(["job"]);
    expect((await other.get(account, "job"))?.account).toBe(account);
  });

  test("a job made during the whole move is taken back, and made in the new one", async () => {
    let moves = 0;
    const { account, from, to, other, move } = await settled(async ({ verb, path }) => {
      // Deleted by somebody before the look, so that the account may move.
      if (verb !== "create" || (moves += 1) > 1) return;
      await cluster.call({ verb: "delete", resource: "scheduledjobs", path: `${path}/job` });
      await move();
      await apply(from.name, "job");
    });
    const job = await other.create({ account, id: "job", spec: SPEC });
    // What somebody else has made there under the name is not touched.
    expect([await jobsIn(from.name), await jobsIn(to.name)]).toEqual([["job"], ["job"]]);
    expect(await other.get(account, "job")).toEqual(job);
  });

  test("by a process that died on the way, jobs are refused for two minutes, and none is left", async () => {
    const { account, from, other } = await settled();
    const leave = (ago: string) =>
      pool.query("update accounts set leaving = uuidv7(-$2::interval) where id = $1", [
        account,
        ago,
      ]);
    await leave("90 seconds");
    await expect(other.create({ account, id: "job", spec: SPEC })).rejects.toThrow(
      DependencyUnavailable,
    );
    expect(await jobsIn(from.name)).toEqual([]);
    await leave("121 seconds");
    await other.create({ account, id: "job", spec: SPEC });
    expect(await jobsIn(from.name)).toEqual(["job"]);
  });
});
