import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Account } from "../../../src/domain/account.ts";
import type { Job } from "../../../src/domain/job.ts";
import type { JobEvent } from "../../../src/domain/ports/job-store.ts";
import { createAccountNamespaces } from "../../../src/kubernetes/account-namespaces.ts";
import { createKubernetesJobStore } from "../../../src/kubernetes/kubernetes-job-store.ts";
import { specFromResource } from "../../../src/kubernetes/scheduled-job.ts";
import { connect, createNamespace, installCrd } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { realTime } from "../../kubernetes/real-time.ts";
import { createTokenSigner } from "../../kubernetes/token-webhook.ts";

const kubeconfig = inject("kubeconfig");
const SPEC = specFromResource(
  { schedule: { cron: "0 3 * * *" }, webhook: { url: "https://example.com/" } },
  "job",
);
const RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces";

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
    createKubernetesJobStore({
      client,
      accountNamespaces: bindings,
      metrics: client.metrics,
      ...realTime,
      ...(namespaces && { namespaces }),
    });

  /** A client that may do in these namespaces what the chart grants a controller, and nothing else. */
  async function controllerOf(namespaces: readonly string[]): Promise<typeof admin> {
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
    return client;
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
      // And on from the last position: nothing comes twice, nothing is missing.
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

  test("a binding is by name and uid, and is asked for again after a while", async () => {
    const { name, uid } = await createNamespace(admin, "bound");
    const account: Account = {
      id: "account-1",
      name: "Team",
      namespace: name,
      namespaceUid: uid,
      retentionDays: null,
      timeZone: "UTC",
      createdAt: 0,
      deletedAt: null,
    };
    let asked = 0;
    let now = 1_000;
    const of = (bound: Account) =>
      createAccountNamespaces({
        client: admin,
        monotonic: () => now,
        timers: realTime.timers,
        accounts: {
          list: async () => [bound],
          get: async (id) => (id === bound.id ? bound : undefined),
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

    const remade = of({ ...account, namespaceUid: "of-an-earlier-namespace" });
    expect(await remade.accountOf(name)).toBeNull();
    expect(await remade.namespaceOf("account-1")).toBeUndefined();
  });

  test("what kubectl made is REST's to change, what a GitOps tool made is not", async () => {
    const { name } = await createNamespace(admin, "owned");
    const account = bindings.bind(name);
    const store = storeOf(admin);
    const apply = (id: string, labels: Record<string, string>) =>
      admin.call({
        verb: "create",
        resource: "scheduledjobs",
        path: `/apis/carillon.dev/v1/namespaces/${name}/scheduledjobs`,
        body: {
          apiVersion: "carillon.dev/v1",
          kind: "ScheduledJob",
          metadata: { name: id, labels },
          spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
        },
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

  test("an account without a namespace holds no jobs, and hears how to get one", async () => {
    const store = storeOf(admin);
    await expect(store.create({ account: "nobody", id: "a", spec: SPEC })).rejects.toThrow(
      "carillon admin account bind",
    );
    expect(await store.get("nobody", "a")).toBeUndefined();
    expect((await store.list({ account: "nobody", limit: 10 })).jobs).toEqual([]);
  });
});
