import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addAbortSignal, PassThrough, Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import {
  PositionExpired,
  type JobEvent,
  type JobPage,
  type JobStore,
} from "../../../src/domain/ports/job-store.ts";
import { createAccountNamespaces } from "../../../src/kubernetes/account-namespaces.ts";
import { createReflector } from "../../../src/controller/reflector.ts";
import {
  RUN_NOW_ANNOTATION,
  specFromResource,
  type ScheduledJob,
} from "../../../src/kubernetes/scheduled-job.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { jobsPath } from "../../../src/kubernetes/scope.ts";
import { probeList } from "../../../src/kubernetes/list-probe.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { startPart } from "../../kubernetes/part.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { signedIn } from "../../kubernetes/signed-in.ts";
import { createTokenSigner } from "../../kubernetes/token-webhook.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";

const kubeconfig = inject("kubeconfig");
const SPEC = specFromResource(
  { schedule: { cron: "0 3 * * *" }, webhook: { url: "https://example.com/" } },
  "job",
);
const RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces";
const CLUSTER_RBAC = "/apis/rbac.authorization.k8s.io/v1";

/** A job as a user applies it. */
const daily = (metadata: { name: string; labels?: object }, payload?: object) => ({
  apiVersion: "carillon.dev/v1",
  kind: "ScheduledJob",
  metadata,
  spec: {
    schedule: { cron: "@daily" },
    webhook: { url: "https://example.com/", ...(payload && { payload }) },
  },
});

describe.runIf(kubeconfig !== "")("namespaces and accounts", () => {
  let admin: ReturnType<typeof connect>;
  const bindings = namespaceAccounts([]);
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    admin = connect(kubeconfig);
    await installCrd(admin);
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
    await admin?.close();
  });

  const storeOf = (client: typeof admin, namespaces?: string[]) =>
    jobStore(client, bindings, namespaces && { namespaces });

  /**
   * A kubeconfig of a user who has in these namespaces the rights that the chart grants a controller, and no others.
   */
  async function kubeconfigFor(namespaces: readonly string[]): Promise<string> {
    const user = `controller-of-${namespaces[0]}`;
    for (const namespace of namespaces) {
      await admin.call({
        verb: "create",
        resource: "roles",
        path: `${RBAC}/${namespace}/roles`,
        body: {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "Role",
          metadata: { name: "jobs", namespace },
          rules: [
            {
              apiGroups: ["carillon.dev"],
              resources: ["scheduledjobs"],
              verbs: ["get", "list", "watch"],
            },
          ],
        },
      });
      await admin.call({
        verb: "create",
        resource: "rolebindings",
        path: `${RBAC}/${namespace}/rolebindings`,
        body: {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "RoleBinding",
          metadata: { name: "jobs", namespace },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "jobs" },
          subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }],
        },
      });
    }
    // As in the chart, this is bound outside of the namespaces, so that it outlives them.
    await admin.call({
      verb: "create",
      resource: "clusterroles",
      path: `${CLUSTER_RBAC}/clusterroles`,
      body: {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        metadata: { name: user },
        rules: [
          { apiGroups: [""], resources: ["namespaces"], verbs: ["get"], resourceNames: namespaces },
        ],
      },
    });
    await admin.call({
      verb: "create",
      resource: "clusterrolebindings",
      path: `${CLUSTER_RBAC}/clusterrolebindings`,
      body: {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        metadata: { name: user },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: user },
        subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }],
      },
    });
    const folder = await mkdtemp(join(tmpdir(), "carillon-kubeconfig-"));
    closing.push(() => rm(folder, { recursive: true }));
    const config = JSON.parse(await readFile(kubeconfig, "utf8")) as {
      users: { user: { token: string } }[];
    };
    for (const each of config.users)
      each.user = { token: createTokenSigner(inject("tokenSecret")).tokenFor(user) };
    const file = join(folder, "kubeconfig");
    await writeFile(file, JSON.stringify(config));
    const client = connect(file);
    closing.push(() => client.close());
    for (const namespace of namespaces) await untilState(client, namespace, "listed");
    return file;
  }

  async function controllerOf(namespaces: readonly string[]): Promise<typeof admin> {
    const client = connect(await kubeconfigFor(namespaces));
    closing.push(() => client.close());
    return client;
  }

  /** Rights take effect a moment after they are written. */
  async function untilState(
    client: typeof admin,
    namespace: string,
    state: "listed" | "gone" | "refused",
  ): Promise<void> {
    await expect.poll(() => probeList(client, namespace)).toBe(state);
  }

  test.runIf(inject("tokenSecret") !== "")(
    "a list of namespaces: rights in those are enough, pages and watches span them",
    async () => {
      const names = (await Promise.all([1, 2, 3].map(() => createNamespace(admin, "listed")))).map(
        ({ name }) => name,
      );
      const [first = "", second = "", third = ""] = names;
      const all = storeOf(admin);
      const accounts = names.map((name) => bindings.bind(name));
      const made: Job[] = [];
      for (const account of accounts)
        for (const id of ["a", "b"]) made.push(await all.create({ account, id, spec: SPEC }));

      const client = await controllerOf([first, second]);
      await expect(storeOf(client).list({ limit: 1 })).rejects.toMatchObject({ code: 403 });
      await expect(
        storeOf(client, [first, third]).list({ account: accounts[2] ?? "", limit: 1 }),
      ).rejects.toMatchObject({ code: 403 });

      const some = storeOf(client, [second, first]);
      await some.ping();
      const seen: string[] = [];
      let page = await some.list({ limit: 1 });
      for (;;) {
        expect(page.jobs.length).toBeLessThanOrEqual(1);
        seen.push(...page.jobs.map((job) => job.uid));
        if (page.continue === undefined) break;
        page = await some.list({ limit: 1, continue: page.continue });
      }
      const mine = made.filter((job) => job.account !== accounts[2]).map((job) => job.uid);
      expect(seen.toSorted()).toEqual(mine.toSorted());

      const later = [
        await all.create({ account: accounts[1] ?? "", id: "c", spec: SPEC }),
        await all.create({ account: accounts[2] ?? "", id: "c", spec: SPEC }),
        await all.create({ account: accounts[0] ?? "", id: "c", spec: SPEC }),
      ];
      const expected = new Set([later[0]?.uid ?? "", later[2]?.uid ?? ""]);
      const end = new AbortController();
      const events: JobEvent[] = [];
      for await (const event of some.watch(page.position, end.signal)) {
        events.push(event);
        if (event.type === "changed") expected.delete(event.job.uid);
        if (expected.size === 0) end.abort();
      }
      expect(JSON.stringify(events)).not.toContain(later[1]?.uid);
      // The watch goes on from the last position: nothing comes twice, and nothing is missing.
      const last = events.at(-1)?.position ?? "";
      const next = await all.create({ account: accounts[0] ?? "", id: "d", spec: SPEC });
      const again = new AbortController();
      const changed: string[] = [];
      for await (const event of some.watch(last, again.signal))
        if (event.type === "changed") {
          changed.push(event.job.uid);
          again.abort();
        }
      expect(changed).toEqual([next.uid]);
    },
  );

  /** Deletes the RoleBinding, as the namespace's administrator may do. */
  async function deleteBinding(client: typeof admin, namespace: string): Promise<void> {
    const path = `${RBAC}/${namespace}/rolebindings/jobs`;
    await admin.call({ verb: "delete", resource: "rolebindings", path });
    await untilState(client, namespace, "refused");
  }
  /** Deletes a namespace as the namespace controller does, which does not run here: first its contents, then itself. */
  async function deleteNamespace(name: string, contents: () => Promise<unknown>): Promise<void> {
    const path = `/api/v1/namespaces/${name}`;
    await admin.call({ verb: "delete", resource: "namespaces", path });
    await contents();
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name }, spec: {} };
    await admin.call({ verb: "update", resource: "namespaces", path: `${path}/finalize`, body });
  }

  /** A store whose pauses take a twentieth of their time: half a second, and a second and a half. */
  const impatient = (client: typeof admin, namespaces: string[]) =>
    jobStore(client, bindings, {
      timers: { after: (ms, done) => realTime.timers.after(ms / 20, done) },
      namespaces,
    });

  /** A reflector on the watched namespaces, and what it has reported. */
  function follow(client: typeof admin, namespaces: string[]) {
    const jobs = impatient(client, namespaces);
    const log = createLogger({ level: "silent" });
    const reflector = createReflector({ jobs, ...realTime, log, resyncMs: 3_600_000 / 1.25 });
    const told = { lists: [] as { jobs: string[]; refused: readonly string[] }[], seen: [""] };
    const end = new AbortController();
    const done = reflector.run(
      {
        listing: () => undefined,
        changed: (job) => told.seen.push(job.uid),
        deleted: () => undefined,
        listed: (uids, refused) => told.lists.push({ jobs: [...uids].toSorted(), refused }),
        stale: () => undefined,
      },
      end.signal,
    );
    const stop = async () => {
      end.abort();
      await done;
    };
    closing.push(stop);
    return { told, stop };
  }

  test.runIf(inject("tokenSecret") !== "")(
    "several namespaces are listed once and then watched",
    async () => {
      const names = (await Promise.all([1, 2].map(() => createNamespace(admin, "several")))).map(
        ({ name }) => name,
      );
      const accounts = names.map((name) => bindings.bind(name));
      const { told, stop } = follow(await controllerOf(names), names);
      await expect.poll(() => told.lists.length).toBeGreaterThan(0);
      const all = storeOf(admin);
      for (const id of ["a", "b", "c", "d"])
        for (const account of accounts) {
          const { uid } = await all.create({ account, id, spec: SPEC });
          await expect.poll(() => told.seen).toContain(uid);
        }
      expect(told.lists).toHaveLength(1);
      await stop();
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "a namespace that is deleted, or takes our rights back, does not stop the others",
    async () => {
      const names = (await Promise.all([1, 2, 3].map(() => createNamespace(admin, "away"))))
        .map(({ name }) => name)
        .toSorted();
      const [first = "", second = "", third = ""] = names;
      const all = storeOf(admin);
      const jobs = await Promise.all(
        names.map((name) => all.create({ account: bindings.bind(name), id: "a", spec: SPEC })),
      );
      const [a = "", b = "", c = ""] = jobs.map((job) => job.uid);
      const client = await controllerOf(names);
      const store = storeOf(client, names);

      // The other namespaces are listed and watched, and this one is named as the gap.
      await deleteBinding(client, first);
      const { told, stop } = follow(client, names);
      await expect.poll(() => told.lists.length).toBe(1);
      expect(told.lists).toEqual([{ jobs: [b, c].toSorted(), refused: [first] }]);
      const account = bindings.bind(third);
      const later = await all.create({ account, id: "later", spec: SPEC });
      await expect.poll(() => told.seen).toContain(later.uid);
      await expect(store.ping()).resolves.toBeUndefined();
      expect(told.lists).toHaveLength(1);

      // A namespace that is being deleted may lose its RoleBinding before its jobs.
      await deleteNamespace(first, async () => {
        const terminating = await store.list({ limit: 10 });
        expect(terminating.refused).toMatchObject({ namespace: first, error: { code: 403 } });
        const job = jobs.find(({ uid }) => uid === a);
        if (job) await all.delete(job);
      });
      // Now it is deleted, which is no gap. That is noticed without a request for a list.
      await expect.poll(() => told.lists.at(-1)?.refused).toEqual([]);
      expect(told.lists).toHaveLength(2);
      expect((await store.list({ limit: 10 })).refused).toBeUndefined();
      await expect(store.ping()).resolves.toBeUndefined();
      await stop();

      // If no namespace can be listed, there is no view of the jobs.
      await deleteBinding(client, second);
      await deleteBinding(client, third);
      const none = follow(client, names);
      await expect(store.ping()).rejects.toThrow("none of the watched namespaces");
      await expect(lastPage(store)).rejects.toMatchObject({ code: 403 });
      expect(none.told.lists).toEqual([]);
      await none.stop();
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "a namespace that is deleted between two pages of its jobs has none in the list that counts",
    async () => {
      const names = (await Promise.all([1, 2].map(() => createNamespace(admin, "between"))))
        .map(({ name }) => name)
        .toSorted();
      const [first = "", second = ""] = names;
      const all = storeOf(admin);
      const create = (name: string, id: string) =>
        all.create({ account: bindings.bind(name), id, spec: SPEC });
      const jobs = [await create(first, "a"), await create(first, "b")];
      const other = await create(second, "a");
      const client = await controllerOf(names);
      const store = storeOf(client, [first, second]);
      const page = await store.list({ limit: 1 });
      await deleteBinding(client, first);
      await deleteNamespace(first, () => Promise.all(jobs.map((job) => all.delete(job))));
      await expect(store.list({ limit: 1, continue: page.continue })).rejects.toMatchObject({
        code: 403,
      });
      const { told, stop } = follow(client, names);
      await expect.poll(() => told.lists).toEqual([{ jobs: [other.uid], refused: [] }]);
      await stop();
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "a watch that is refused asks for a list, unless that would be all there is to it",
    async () => {
      const names = (await Promise.all([1, 2].map(() => createNamespace(admin, "refused")))).map(
        ({ name }) => name,
      );
      const [first = "", second = ""] = names;
      const client = await controllerOf(names);
      const store = impatient(client, names);
      const { position } = await lastPage(store);
      const watched = async () => {
        for await (const event of store.watch(position, new AbortController().signal))
          expect(event.type).toBe("bookmark");
      };
      // A namespace that may be listed, but not watched: another list would only lead to the same failure.
      await admin.call({
        verb: "patch",
        resource: "roles",
        path: `${RBAC}/${second}/roles/jobs`,
        body: {
          rules: [
            { apiGroups: ["carillon.dev"], resources: ["scheduledjobs"], verbs: ["get", "list"] },
          ],
        },
      });
      await expect
        .poll(async () => {
          const path = `/apis/carillon.dev/v1/namespaces/${second}/scheduledjobs`;
          const signal = AbortSignal.timeout(5_000);
          const watch = { resource: "scheduledjobs", path, query: { watch: "true" }, signal };
          const body = await client.watch({ ...watch, inactivityMs: 5_000 }).catch(() => undefined);
          body?.on("error", () => undefined).destroy();
          return body === undefined;
        })
        .toBe(true);
      const ends = async () => {
        const began = performance.now();
        const end: unknown = await watched().catch((error: unknown) => error);
        return { end, tookMs: performance.now() - began };
      };
      let refusal = await ends();
      expect(refusal.end).toMatchObject({ code: 403 });
      expect(refusal.tookMs).toBeGreaterThan(450);
      await deleteBinding(client, first);
      refusal = await ends();
      expect(refusal.end).toBeInstanceOf(PositionExpired);
    },
  );

  /** A gateway with the same rights, an account of the namespace, and its owner, signed in. */
  async function gatewayOf({ name: namespace, uid }: { name: string; uid: string }) {
    const database = await createTestDatabase();
    closing.push(() => database.drop());
    const pool = createPool({ url: database.url, applicationName: "namespaces test" });
    closing.push(() => pool.end());
    const { id } = await createAccounts({ pool }).create({
      name: namespace,
      namespace,
      namespaceUid: uid,
    });
    const who = { email: "owner@example.com", password: "correct horse battery" };
    await createUsers({ pool }).create({ account: id, ...who });
    const file = await kubeconfigFor([namespace]);
    const gateway = await startPart("gateway", {
      DATABASE_URL: database.url,
      KUBECONFIG: file,
      CARILLON_WATCH_NAMESPACES: namespace,
      CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString("base64")}`,
    });
    closing.push(() => gateway.stop());
    const client = connect(file);
    closing.push(() => client.close());
    return { gateway, client, ask: await signedIn(gateway.url, who) };
  }

  test.runIf(inject("tokenSecret") !== "")(
    "a gateway's dashboard follows the jobs of an account by its rights in that namespace",
    async () => {
      const bound = await createNamespace(admin, "dashboard");
      const { gateway, ask } = await gatewayOf(bound);
      const namespace = bound.name;
      expect(await ask("GET", "/jobs")).toMatchObject({ status: 200, body: { total: 0 } });
      const account = bindings.bind(namespace);
      await storeOf(admin).create({ account, id: "by-somebody-else", spec: SPEC });
      await expect.poll(async () => (await ask("GET", "/jobs")).body["total"]).toBe(1);
      const refused = await gateway.metric("carillon_kubernetes_requests_total", 'status="403"');
      expect(refused).toBe(0);
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "what a gateway has no right to is the operator's to grant: 503, and the log says which",
    async () => {
      const bound = await createNamespace(admin, "unentitled");
      const { gateway, client, ask } = await gatewayOf(bound);
      const refused = {
        status: 503,
        body: {
          error:
            "kubernetes does not let the service do this: the log says why, under the request id",
          code: "dependency_unavailable",
        },
      };
      const job = {
        name: "Nobody may",
        type: "webhook",
        schedule_type: "cron",
        cron_expression: "0 3 * * *",
        webhook_url: "http://127.0.0.1:9/",
      };
      expect(await ask("POST", "/jobs", job)).toEqual(refused);
      // The log comes through a pipe, perhaps later than the answer.
      const line = await until("it is logged", () => gateway.logged("dependency unavailable"));
      const { err } = line as { err: { message: string } };
      expect(err.message).toContain("cannot create resource");
      await deleteBinding(client, bound.name);
      expect(await ask("GET", "/jobs")).toEqual(refused);
      expect(await ask("GET", "/jobs/any")).toEqual(refused);
      const times = () => gateway.program.stdout().split('"dependency unavailable"').length - 1;
      await until("all three are logged", () => times() === 3);
      expect(gateway.logged("unexpected error")).toBeUndefined();
    },
  );

  test("a binding is by name and uid, and is asked for again after a while", async () => {
    const { name, uid } = await createNamespace(admin, "bound");
    const account = boundTo({ name, uid });
    let asked = 0;
    let now = 1_000;
    const of = (bound: Account) =>
      createAccountNamespaces({
        client: admin,
        monotonic: () => now,
        timers: realTime.timers,
        accounts: {
          bindings: async (ids) =>
            ids.includes(bound.id)
              ? [
                  {
                    account: bound.id,
                    namespace: name,
                    namespaceUid: bound.namespaceUid,
                    leaving: false,
                  },
                ]
              : [],
          list: async () => [bound],
          byNamespace: async (namespace, its) => {
            asked += 1;
            return namespace === bound.namespace && its === bound.namespaceUid ? bound : undefined;
          },
        },
      });
    const right = of(account);
    expect(await right.accountOf(name)).toBe("account-1");
    expect(await right.accountOf(name)).toBe("account-1");
    expect(asked).toBe(1);
    now += 6_000;
    expect(await right.accountOf(name)).toBe("account-1");
    expect(asked).toBe(2);
    expect(await right.namespaceOf("account-1")).toBe(name);
    expect(await right.namespaceOf("account-2")).toBeUndefined();
    expect(await right.accountOf("default")).toBeNull();
    expect(await right.accountOf("no-such-namespace")).toBeNull();

    const bound: Account[] = [account];
    const moving = createAccountNamespaces({
      client: admin,
      monotonic: () => now,
      timers: realTime.timers,
      accounts: {
        bindings: async () => [],
        list: async () => bound,
        byNamespace: async () => bound[0],
      },
    });
    await moving.bindings();
    expect(await moving.accountOf(name)).toBe("account-1");
    bound.length = 0;
    await moving.bindings();
    // It holds at once: a process that has seen the change of a binding then lists all jobs by this answer.
    expect(await moving.accountOf(name)).toBeNull();

    const remade = of({ ...account, namespaceUid: "of-an-earlier-namespace" });
    expect(await remade.accountOf(name)).toBeNull();
    expect(await remade.namespaceOf("account-1")).toBeUndefined();
  });

  test("a list knows a namespace that was deleted and made again since the list before, however soon", async () => {
    const first = await createNamespace(admin, "remade");
    const path = (job?: string) => jobsPath(first.name, job);
    const create = () =>
      admin.call({
        verb: "create",
        resource: "scheduledjobs",
        path: path(),
        body: daily({ name: "a" }),
      });
    const accountNamespaces = createAccountNamespaces({
      client: admin,
      monotonic: () => 1_000,
      timers: realTime.timers,
      accounts: {
        bindings: async () => [],
        list: async () => [boundTo(first)],
        byNamespace: async (_, uid) => (uid === first.uid ? boundTo(first) : undefined),
      },
    });
    const store = jobStore(admin, accountNamespaces, { namespaces: [first.name] });
    const accounts = async () => (await store.list({ limit: 500 })).jobs.map((job) => job.account);
    await create();
    expect(await accounts()).toEqual(["account-1"]);
    await deleteNamespace(first.name, () =>
      admin.call({ verb: "delete", resource: "scheduledjobs", path: path("a") }),
    );
    await admin.call({
      verb: "create",
      resource: "namespaces",
      path: "/api/v1/namespaces",
      body: { metadata: { name: first.name } },
    });
    await create();
    expect(await accounts()).toEqual([null]);
  });

  test("the jobs of a namespace that was bound since the list come again, and nothing older behind them", async () => {
    const late = await createNamespace(admin, "late");
    const path = (job?: string) => jobsPath(late.name, job);
    const call = (verb: "create" | "delete", of: string, body?: object) =>
      admin.call({ verb, resource: "scheduledjobs", path: of, body });
    const ask = (job: string, runNow: string) =>
      admin.call({
        verb: "patch",
        resource: "scheduledjobs",
        path: path(job),
        body: { metadata: { annotations: { [RUN_NOW_ANNOTATION]: runNow } } },
      });
    const bound: Account[] = [];
    const accountNamespaces = createAccountNamespaces({
      client: admin,
      monotonic: realTime.monotonic,
      // Changes of bindings are looked for every few seconds: faster here.
      timers: { after: (milliseconds, run) => realTime.timers.after(milliseconds / 100, run) },
      accounts: {
        bindings: async () => [],
        list: async () => bound,
        byNamespace: async () => bound[0],
      },
    });
    // The first watch tells nothing: it is behind when the namespace is bound.
    let watches = 0;
    const client: typeof admin = {
      ...admin,
      watch: async (options) =>
        (watches += 1) > 1
          ? admin.watch(options)
          : (addAbortSignal(options.signal, new PassThrough()) as unknown as ReturnType<
              typeof admin.watch
            >),
    };
    const store = jobStore(admin, accountNamespaces, { client });
    await call("create", path(), daily({ name: "late" }));
    await call("create", path(), daily({ name: "gone" }));
    const { jobs, position } = await store.list({ limit: 500 });
    const gone = jobs.find(({ id }) => id === "gone");
    await ask("late", "first");
    await call("delete", path("gone"));
    await ask("late", "second");

    const told: string[] = [];
    for await (const event of store.watch(position, AbortSignal.timeout(30_000))) {
      if (event.type === "bookmark" && told.length === 0) bound[0] = boundTo(late);
      if (event.type === "deleted" && event.uid === gone?.uid) told.push("it is gone");
      if (event.type !== "changed" || event.job.id !== "late") continue;
      told.push(`of ${event.job.account}, to run now ${event.job.runNow}`);
      if (event.job.runNow === "third") break;
      if (told.length === 1) await ask("late", "third");
    }
    expect(told).toEqual([
      "of account-1, to run now second",
      "it is gone",
      "of account-1, to run now third",
    ]);
  });

  test("jobs that come and go are no reason to ask for each of them whose it is", async () => {
    const [busy, quiet] = [await createNamespace(admin, "busy"), await createNamespace(admin, "q")];
    const asked: string[] = [];
    const accountNamespaces = createAccountNamespaces({
      client: admin,
      monotonic: () => 1_000,
      timers: realTime.timers,
      accounts: {
        bindings: async () => [],
        list: async () => [],
        byNamespace: async (namespace) => {
          asked.push(namespace);
          return undefined;
        },
      },
    });
    const timesAsked = ({ name }: { name: string }) => asked.filter((each) => each === name).length;
    // What one read of a connection returns is random. Here there are exactly two reads: up to a job in the middle,
    // and the rest.
    const client: typeof admin = {
      ...admin,
      async watch(options) {
        let told = "";
        for await (const piece of await admin.watch(options)) {
          told += String(piece);
          if (told.includes('"name":"last"') && told.endsWith("\n")) break;
        }
        const halfway = told.indexOf("\n", told.indexOf('"name":"halfway"')) + 1;
        const pieces = [told.slice(0, halfway), told.slice(halfway)].map((text) =>
          Buffer.from(text),
        );
        return Readable.from(pieces) as Awaited<ReturnType<typeof admin.watch>>;
      },
    };
    const store = jobStore(admin, accountNamespaces, { client });
    const { position } = await store.list({ limit: 1 });
    const create = (namespace: { name: string }, name: string) =>
      admin.call({
        verb: "create",
        resource: "scheduledjobs",
        path: jobsPath(namespace.name),
        body: daily({ name }),
      });
    const comeAndGo = async () => {
      for (let i = 0; i < 5; i += 1) {
        await create(busy, "passing");
        const passing = jobsPath(busy.name, "passing");
        await admin.call({ verb: "delete", resource: "scheduledjobs", path: passing });
      }
    };
    await create(quiet, "first");
    await comeAndGo();
    await create(quiet, "halfway");
    await comeAndGo();
    await create(quiet, "last");

    for await (const event of store.watch(position, new AbortController().signal))
      if (event.type === "changed" && event.job.id === "last") break;
    // Once at first, and then once for each read, because the namespace may have been created anew.
    expect(timesAsked(busy)).toBe(3);
    expect(timesAsked(quiet)).toBe(1);
  });

  test("what kubectl made is REST's to change, what a GitOps tool made is not", async () => {
    const { name } = await createNamespace(admin, "owned");
    const account = bindings.bind(name);
    const store = storeOf(admin);
    const apply = (id: string, labels: Record<string, string>) =>
      admin.call({
        verb: "create",
        resource: "scheduledjobs",
        path: jobsPath(name),
        body: daily({ name: id, labels }),
      });
    await apply("by-kubectl", {});
    await apply("by-argo", { "argocd.argoproj.io/instance": "shop" });
    const plain = await store.get(account, "by-kubectl");
    const owned = await store.get(account, "by-argo");
    if (!plain || !owned) throw new Error("both were just made");
    expect((await store.update(plain, { ...plain.spec, name: "Changed" })).generation).toBe(2);
    await expect(store.update(owned, SPEC)).rejects.toThrow("managed by Argo CD (shop)");
    await expect(store.delete(owned)).rejects.toThrow("managed by Argo CD (shop)");
    expect((await store.get(account, "by-argo"))?.generation).toBe(1);
  });

  test("of what kubectl made, a change writes what it changes and spells out no default", async () => {
    const { name } = await createNamespace(admin, "written");
    const account = bindings.bind(name);
    const store = storeOf(admin);
    const path = `/apis/carillon.dev/v1/namespaces/${name}/scheduledjobs`;
    const { spec: written } = await admin.call<ScheduledJob>({
      verb: "create",
      resource: "scheduledjobs",
      path,
      body: daily({ name: "a" }, { long: 1, gone: 2 }),
    });
    const after = async (change: Partial<JobSpec>) => {
      const job = await store.get(account, "a");
      if (!job) throw new Error("it was just made");
      await store.update(job, { ...job.spec, ...change });
      const get = { verb: "get", resource: "scheduledjobs", path: `${path}/a` } as const;
      return (await admin.call<ScheduledJob>(get)).spec;
    };
    expect(await after({ suspend: true })).toEqual({ ...written, suspend: true });
    expect(await after({ suspend: false })).toEqual(written);
    const webhook = { url: "https://example.com/", payload: { long: 3 } };
    const { target } = specFromResource({ webhook }, "a");
    expect((await after({ target }))?.webhook?.payload).toEqual({ long: 3 });
    const at = Date.UTC(2031, 0);
    expect((await after({ schedule: { kind: "once", at } }))?.schedule).toEqual({
      at: "2031-01-01T00:00:00Z",
    });
    const email = { to: "a@b.example", subject: "s", body: "b" };
    const mailed = await after({ target: specFromResource({ email }, "a").target });
    expect(mailed?.email).toMatchObject(email);
    expect(mailed).not.toHaveProperty("webhook");
  });

  test("a payload is one value: what is applied and what REST wrote do not mix", async () => {
    const { name } = await createNamespace(admin, "one-value");
    const account = bindings.bind(name);
    const store = storeOf(admin);
    const apply = (query: Record<string, string> = {}) =>
      admin.call<ScheduledJob>({
        verb: "apply",
        resource: "scheduledjobs",
        path: jobsPath(name, "a"),
        query: { fieldManager: "kubectl", ...query },
        body: daily({ name: "a" }, { to: "all" }),
      });
    await apply();
    const job = await store.get(account, "a");
    if (!job) throw new Error("it was just made");
    const webhook = { url: "https://example.com/", payload: { purge: true } };
    const { target } = specFromResource({ webhook }, "a");
    await store.update(job, { ...job.spec, target });
    await expect(apply()).rejects.toThrow(".spec.webhook.payload");
    expect((await apply({ force: "true" })).spec?.webhook?.payload).toEqual({ to: "all" });
  });

  test("an account without a namespace holds no jobs, and hears how to get one", async () => {
    const store = storeOf(admin);
    await expect(store.create({ account: "nobody", id: "a", spec: SPEC })).rejects.toThrow(
      "carillon admin account bind",
    );
    expect(await store.get("nobody", "a")).toBeUndefined();
    expect((await store.list({ account: "nobody", limit: 10 })).jobs).toEqual([]);
  });

  test("an account whose namespace is being deleted gets no job there, and hears how to get another one", async () => {
    const { name } = await createNamespace(admin, "ending");
    const account = bindings.bind(name);
    const path = `/api/v1/namespaces/${name}`;
    await admin.call({ verb: "delete", resource: "namespaces", path });
    const store = storeOf(admin);
    await expect(store.create({ account, id: "a", spec: SPEC })).rejects.toThrow(
      "carillon admin account bind",
    );
  });

  test.runIf(inject("tokenSecret") !== "")(
    "a namespace that we may not even look at counts as refused, not as gone with its jobs",
    async () => {
      const { name } = await createNamespace(admin, "hidden");
      const { tokenFor } = createTokenSigner(inject("tokenSecret"));
      const stranger = connect(kubeconfig, { token: tokenFor("nobody-in-particular") });
      expect(await probeList(stranger, name)).toBe("refused");
      await stranger.close();
    },
  );
});

async function lastPage(store: JobStore): Promise<JobPage> {
  let page = await store.list({ limit: 500 });
  while (page.continue !== undefined)
    page = await store.list({ limit: 500, continue: page.continue });
  return page;
}

/** The account account-1, bound to this namespace. */
function boundTo({ name, uid }: { name: string; uid: string }): Account {
  return {
    id: "account-1",
    name: "Team",
    namespace: name,
    namespaceUid: uid,
    retentionDays: null,
    timeZone: "UTC",
    createdAt: 0,
    deletedAt: null,
  };
}
