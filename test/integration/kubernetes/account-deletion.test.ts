import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { parse } from "yaml";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createAccountDeletion } from "../../../src/kubernetes/account-deletion.ts";
import { specFromResource } from "../../../src/kubernetes/scheduled-job.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createApiKeys } from "../../../src/postgres/api-keys.ts";
import { cancelAccountRuns } from "../../../src/postgres/cancel-account-runs.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { run, type Finished } from "../../e2e/program.ts";
import { connect, createNamespace, installCrd, jobStore } from "../../kubernetes/cluster.ts";
import { namespaceAccounts } from "../../kubernetes/namespace-accounts.ts";
import { startPart, type Part } from "../../kubernetes/part.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const kubeconfig = inject("kubeconfig");
const PASSWORD = "correct horse battery";
const MADE_BY_REST = { "app.kubernetes.io/managed-by": "carillon" };
const MADE = "job-0199";
const SPEC = { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } };

const path = (namespace: string) => `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs`;

describe.runIf(kubeconfig !== "")("an account is deleted, and another gets its namespace", () => {
  let cluster: ReturnType<typeof connect>;
  let database: TestDatabase;
  let pool: Pool;
  let gateway: Part;
  beforeAll(async () => {
    cluster = connect(kubeconfig);
    [database] = await Promise.all([createTestDatabase(), installCrd(cluster)]);
    pool = createPool({ url: database.url, applicationName: "deletion test" });
    gateway = await startPart("gateway", {
      DATABASE_URL: database.url,
      KUBECONFIG: kubeconfig,
      CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString("base64")}`,
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    await pool?.end();
    await database?.drop();
    await cluster?.close();
  });

  const accounts = () => createAccounts({ pool, onDelete: cancelAccountRuns });
  const apply = (namespace: string, name: string, labels: Record<string, string> = {}) =>
    cluster.call({
      verb: "create",
      resource: "scheduledjobs",
      path: path(namespace),
      body: {
        apiVersion: "carillon.dev/v1",
        kind: "ScheduledJob",
        metadata: { name, labels },
        spec: SPEC,
      },
    });
  const jobsIn = async (namespace: string) => {
    const { items } = await cluster.call<{ items: { metadata: { name: string } }[] }>({
      verb: "list",
      resource: "scheduledjobs",
      path: path(namespace),
    });
    return items.map(({ metadata }) => metadata.name);
  };

  async function ask(method: string, url: string, headers: object, json?: object) {
    const reply = await fetch(gateway.url + url, {
      method,
      headers: { "Content-Type": "application/json", ...headers },
      ...(json && { body: JSON.stringify(json) }),
    });
    return { reply, body: (await reply.json()) as Record<string, unknown> };
  }

  /** An account with a job that was made by REST, one applied by hand, and one of a GitOps tool. */
  async function settled(name: string) {
    const { name: namespace, uid } = await createNamespace(cluster, "deleted");
    const account = await accounts().create({ name, namespace, namespaceUid: uid });
    // As in another process, because the gateway caches bindings for some seconds.
    const bindings = namespaceAccounts([]);
    const store = jobStore(cluster, bindings);
    const spec = specFromResource(SPEC, MADE);
    await store.create({ account: bindings.bind(namespace), id: MADE, spec });
    await apply(namespace, "job-by-hand");
    const argo = { ...MADE_BY_REST, "argocd.argoproj.io/instance": "shop" };
    await apply(namespace, "of-a-tool", argo);
    return { account, namespace, uid };
  }

  async function inTheDashboard(id: string, name: string): Promise<void> {
    const email = `${id}@example.com`;
    await createUsers({ pool }).create({ account: id, email, password: PASSWORD });
    const headers = { Origin: gateway.url };
    const signIn = { email, password: PASSWORD };
    const { reply } = await ask("POST", "/dashboard/api/session", headers, signIn);
    const Cookie = reply.headers.get("set-cookie")?.split(";")[0] ?? "";
    const deletion = { name, password: PASSWORD };
    const url = "/dashboard/api/account/delete";
    expect((await ask("POST", url, { ...headers, Cookie }, deletion)).reply.status).toBe(200);
  }

  function onTheCommandLine(name: string, env: Record<string, string>): Promise<Finished> {
    const args = ["admin", "account", "delete", name];
    return run("cli", { args, env: { DATABASE_URL: database.url, ...env } }).finished;
  }

  const ways = [
    { way: "in the dashboard", name: "gone-1", by: inTheDashboard },
    {
      way: "on the command line",
      name: "gone-2",
      by: async (_id: string, name: string) => {
        const finished = await onTheCommandLine(name, { KUBECONFIG: kubeconfig });
        expect(finished).toMatchObject({ code: 0, stderr: "" });
      },
    },
  ];
  test.each(ways)("$way: jobs that REST made go, others stay", async ({ name, by }) => {
    const { account, namespace, uid } = await settled(name);
    await by(account.id, name);
    expect((await accounts().get(account.id))?.deletedAt).not.toBeNull();
    expect(await jobsIn(namespace)).toEqual(["job-by-hand", "of-a-tool"]);
    const next = await accounts().create({ name: `next-${name}`, namespace, namespaceUid: uid });
    const { raw } = await createApiKeys({ pool }).create(next.id, "");
    const key = { "X-API-Key": raw };
    expect((await ask("GET", `/jobs/${MADE}`, key)).reply.status).toBe(404);
    expect((await ask("GET", "/jobs/job-by-hand", key)).reply.status).toBe(200);
  });

  test("what cannot be deleted is said, with what to do about it", async () => {
    const nowhere = { KUBECONFIG: "/nonexistent", CARILLON_JOB_STORE: "kubernetes" };
    const { namespace } = await settled("left-behind");
    // With a kubeconfig that leads nowhere, nothing is deleted.
    expect((await onTheCommandLine("left-behind", nowhere)).code).toBe(1);
    expect(await accounts().byName("left-behind")).toBeDefined();
    const { code, stdout, stderr } = await onTheCommandLine("left-behind", {});
    expect({ code, deleted: JSON.parse(stdout) as object }).toMatchObject({
      code: 0,
      deleted: { deleted: true, note: expect.stringContaining(namespace) as unknown },
    });
    expect(stderr).toMatch(/^carillon: the account is deleted, but [^\n]*\n$/);
    expect(stderr).toContain(`kubectl delete scheduledjobs -n ${namespace} -l `);
    expect(await jobsIn(namespace)).toContain(MADE);
  });

  test("the account goes also where the API server says no, and that is said", async () => {
    const { account, namespace } = await settled("refused");
    const folder = await mkdtemp(join(tmpdir(), "carillon-stranger-"));
    const config = parse(await readFile(kubeconfig, "utf8")) as { users: { user: object }[] };
    for (const each of config.users) each.user = { token: "of-nobody" };
    const file = join(folder, "kubeconfig");
    await writeFile(file, JSON.stringify(config));
    const { code, stderr } = await onTheCommandLine("refused", { KUBECONFIG: file });
    await rm(folder, { recursive: true });
    expect(code).toBe(0);
    expect(stderr).toMatch(/^carillon: the account is deleted, but [^\n]*\n$/);
    expect(stderr).toContain("401");
    expect((await accounts().get(account.id))?.deletedAt).not.toBeNull();
    expect(await jobsIn(namespace)).toContain(MADE);
  });

  test("a job that is made while the account is deleted goes too", async () => {
    const { account, namespace } = await settled("in-between");
    const deletion = createAccountDeletion({ client: cluster, accounts: accounts() });
    const left = await deletion(account.id, async () => {
      await apply(namespace, "job-meanwhile", MADE_BY_REST);
      await accounts().delete(account.id);
    });
    expect(left).toBeUndefined();
    expect(await jobsIn(namespace)).toEqual(["job-by-hand", "of-a-tool"]);
  });

  test("the jobs of an account that is bound meanwhile are its own", async () => {
    const { account, namespace, uid } = await settled("overtaken");
    const deletion = createAccountDeletion({ client: cluster, accounts: accounts() });
    const left = await deletion(account.id, async () => {
      await accounts().delete(account.id);
      await accounts().create({ name: "overtaker", namespace, namespaceUid: uid });
      await apply(namespace, "job-of-the-next", MADE_BY_REST);
    });
    expect(left).toBeUndefined();
    const others = ["job-by-hand", "job-of-the-next", "of-a-tool"];
    expect(await jobsIn(namespace)).toEqual(others);
    // A repeated deletion does not delete the jobs of the next account in that namespace.
    expect(await deletion(account.id, async () => {})).toBeUndefined();
    expect(await jobsIn(namespace)).toEqual(others);
  });

  test("however many jobs there are, and although the first look failed", async () => {
    const { account, namespace } = await settled("many");
    const names = Array.from({ length: 60 }, (_, n) => `job-many-${n}`);
    await Promise.all(names.map((name) => apply(namespace, name, MADE_BY_REST)));
    let looks = 0;
    const call: typeof cluster.call = (asked) => {
      if (asked.verb === "list" && (looks += 1) === 1)
        return Promise.reject(new DependencyUnavailable("kubernetes"));
      return cluster.call(asked);
    };
    const deletion = createAccountDeletion({ client: { call }, accounts: accounts() });
    expect(await deletion(account.id, () => accounts().delete(account.id))).toBeUndefined();
    expect(await jobsIn(namespace)).toEqual(["job-by-hand", "of-a-tool"]);
  });

  test("a job that somebody makes under the name of one that was listed stays", async () => {
    const { account, namespace } = await settled("same-name");
    const call: typeof cluster.call = async (asked) => {
      if (asked.verb === "delete") {
        const { path: made, resource } = asked;
        await cluster.call({ verb: "delete", path: made, resource });
        await apply(namespace, MADE);
      }
      return cluster.call(asked);
    };
    const deletion = createAccountDeletion({ client: { call }, accounts: accounts() });
    expect(await deletion(account.id, () => accounts().delete(account.id))).toBeUndefined();
    expect(await jobsIn(namespace)).toContain(MADE);
  });

  test("a namespace that was made again under its name is left alone", async () => {
    const { name: namespace } = await createNamespace(cluster, "deleted");
    await apply(namespace, "job-of-somebody", MADE_BY_REST);
    const bound = { name: "earlier", namespace, namespaceUid: "of-the-earlier-one" };
    const account = await accounts().create(bound);
    const deletion = createAccountDeletion({ client: cluster, accounts: accounts() });
    expect(await deletion(account.id, () => accounts().delete(account.id))).toBeUndefined();
    expect(await jobsIn(namespace)).toEqual(["job-of-somebody"]);
  });

  test("an account that may not be deleted keeps its jobs", async () => {
    const { account, namespace } = await settled("staying");
    const deletion = createAccountDeletion({ client: cluster, accounts: accounts() });
    const refused = deletion(account.id, () => Promise.reject(new Error("not today")));
    await expect(refused).rejects.toThrow("not today");
    expect(await jobsIn(namespace)).toContain(MADE);
  });
});
