import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { parse } from "yaml";
import type { Account } from "../../../src/domain/account.ts";
import { createAccountBinding } from "../../../src/kubernetes/account-binding.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { findChrome, launchChrome } from "../../e2e/dashboard/chrome.ts";
import { openWindow, signIn } from "../../e2e/dashboard/owner.ts";
import { run } from "../../e2e/program.ts";
import { connect, createNamespace, installCrd } from "../../kubernetes/cluster.ts";
import { startPart, type Part } from "../../kubernetes/part.ts";
import { signedIn } from "../../kubernetes/signed-in.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const kubeconfig = inject("kubeconfig");
const chrome = findChrome();
const PASSWORD = "correct horse battery";
const jobs = (namespace: string, name = "") =>
  `/apis/carillon.dev/v1/namespaces/${namespace}/scheduledjobs${name && `/${name}`}`;

describe.runIf(kubeconfig !== "")("an account moves to another namespace", () => {
  let cluster: ReturnType<typeof connect>;
  let database: TestDatabase;
  let pool: Pool;
  const closing: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    cluster = connect(kubeconfig);
    [database] = await Promise.all([createTestDatabase(), installCrd(cluster)]);
    pool = createPool({ url: database.url, applicationName: "binding test" });
  });
  afterAll(async () => {
    for (const close of closing) await close();
    await pool?.end();
    await database?.drop();
    await cluster?.close();
  });

  const accounts = () => {
    const binding = createAccountBinding({ client: cluster });
    return createAccounts({ pool, onLeave: (namespace, uid) => binding.leave(namespace, uid) });
  };
  const createJob = (namespace: string, name: string) =>
    cluster.call({
      verb: "create",
      resource: "scheduledjobs",
      path: jobs(namespace),
      body: {
        apiVersion: "carillon.dev/v1",
        kind: "ScheduledJob",
        metadata: { name },
        spec: { schedule: { cron: "@daily" }, webhook: { url: "https://example.com/" } },
      },
    });
  const deleteJob = (namespace: string, name: string) =>
    cluster.call({ verb: "delete", resource: "scheduledjobs", path: jobs(namespace, name) });

  /** A kubeconfig of a user whom the API server does not know. */
  async function strangersConfig(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "carillon-stranger-"));
    closing.push(() => rm(folder, { recursive: true }));
    const config = parse(await readFile(kubeconfig, "utf8")) as { users: { user: object }[] };
    for (const each of config.users) each.user = { token: "of-nobody" };
    const file = join(folder, "kubeconfig");
    await writeFile(file, JSON.stringify(config));
    return file;
  }

  /** An account that is bound to a namespace with one job, and another namespace. */
  async function settled(name: string) {
    const [from, to] = await Promise.all([
      createNamespace(cluster, "from"),
      createNamespace(cluster, "to"),
    ]);
    const account = await accounts().create({
      name,
      namespace: from.name,
      namespaceUid: from.uid,
    });
    await createJob(from.name, "left-behind");
    return { account, from, to };
  }

  test("only when no jobs would stay behind", async () => {
    const { account, from, to } = await settled("mover");
    await expect(accounts().bind(account.id, to.name, to.uid)).rejects.toThrow(
      `bound to the namespace ${from.name}, which has ScheduledJobs: delete or move them first`,
    );
    expect(await accounts().get(account.id)).toEqual(account);
    // Binding to the same namespace again is no move.
    expect(await accounts().bind(account.id, from.name, from.uid)).toEqual(account);
    await deleteJob(from.name, "left-behind");
    const moved = await accounts().bind(account.id, to.name, to.uid);
    expect(moved).toMatchObject({ namespace: to.name, namespaceUid: to.uid });
  });

  const free = [
    { name: "a namespace that was made again under its name", uid: "of-the-earlier-one" },
    { name: "a namespace that is gone", namespace: "no-such-namespace" },
  ];
  test.each(free)("away from $name, whatever is in it", async ({ name, uid, namespace }) => {
    const { from, to } = await settled(`settled in ${name.slice(0, 40)}`);
    const account = await accounts().create({
      name: `leaves ${name.slice(0, 40)}`,
      namespace: namespace ?? to.name,
      namespaceUid: uid ?? from.uid,
    });
    await createJob(to.name, "of-somebody-else");
    const next = await createNamespace(cluster, "next");
    expect((await accounts().bind(account.id, next.name, next.uid)).namespace).toBe(next.name);
  });

  test("bound by name alone, what is there now counts", async () => {
    const [from, to] = await Promise.all([
      createNamespace(cluster, "from"),
      createNamespace(cluster, "to"),
    ]);
    const account = await accounts().create({ name: "by name alone", namespace: from.name });
    await createJob(from.name, "left-behind");
    await expect(accounts().bind(account.id, to.name, to.uid)).rejects.toThrow("has ScheduledJobs");
  });

  test("on the command line: what to do is one line, also where the cluster cannot be seen", async () => {
    const { from, to } = await settled("cli");
    const bind = async (env: Record<string, string>) => {
      const args = ["admin", "account", "bind", "cli", "--namespace", to.name];
      const { code, stdout, stderr } = await run("cli", {
        args,
        env: { DATABASE_URL: database.url, ...env },
      }).finished;
      return { code, stdout, lines: stderr.trim().split("\n") };
    };
    const inUse = await bind({ KUBECONFIG: kubeconfig });
    expect(inUse).toMatchObject({ code: 1, stdout: "" });
    expect(inUse.lines).toEqual([
      expect.stringMatching(`^carillon: .*${from.name}, which has ScheduledJobs: delete or move`),
    ]);
    const blind = await bind({});
    expect(blind.code).toBe(1);
    expect(blind.lines).toEqual([
      expect.stringMatching(/^carillon: .*set KUBECONFIG, or run this/),
    ]);
    const stranger = await bind({ KUBECONFIG: await strangersConfig() });
    expect(stranger.code).toBe(1);
    expect(stranger.lines.at(-1)).toMatch(
      new RegExp(`^carillon: namespace: ${from.name} cannot be looked at, which binding needs`),
    );
    await deleteJob(from.name, "left-behind");
    const bound = await bind({ KUBECONFIG: kubeconfig });
    expect(bound).toMatchObject({ code: 0, lines: [""] });
    expect(JSON.parse(bound.stdout)).toMatchObject({ name: "cli", namespace: to.name });
    expect((await accounts().byName("cli"))?.namespaceUid).toBe(to.uid);
  });

  const migrated = (bootstrapNamespace: string) =>
    run("migrate", {
      env: {
        DATABASE_URL: database.url,
        KUBECONFIG: kubeconfig,
        CARILLON_BOOTSTRAP_ACCOUNT: "first",
        CARILLON_BOOTSTRAP_NAMESPACE: bootstrapNamespace,
      },
    }).finished;

  test("of the first account: one that is not there is asked for, another is bound by its uid", async () => {
    const { name, uid } = await createNamespace(cluster, "first");
    const { code, stderr } = await migrated("not-there");
    expect(code).toBe(1);
    expect(stderr).toContain("the namespace not-there of the first account does not exist");
    expect(await migrated(name)).toMatchObject({ code: 0 });
    const bound = await accounts().byName("first");
    expect(bound).toMatchObject({ namespace: name, namespaceUid: uid });
  });

  describe("in the dashboard", () => {
    let gateway: Part;
    let admins: Account;
    beforeAll(async () => {
      admins = await accounts().create({ name: "administrators" });
      const users = createUsers({ pool });
      const create = (email: string, more: object) =>
        users.create({ account: admins.id, email, password: PASSWORD, ...more });
      await create("admin@example.com", { admin: true });
      await create("owner@example.com", {});
      gateway = await startPart("gateway", {
        DATABASE_URL: database.url,
        KUBECONFIG: kubeconfig,
        CARILLON_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString("base64")}`,
      });
    });
    afterAll(() => gateway?.stop());

    test("with the same rule, for administrators, and REST knows it at once", async () => {
      const { account, from, to } = await settled("dashboard");
      const users = createUsers({ pool });
      const email = "theirs@example.com";
      await users.create({ account: account.id, email, password: PASSWORD });
      const as = (each: string) => signedIn(gateway.url, { email: each, password: PASSWORD });
      const theirs = await as(email);
      const admin = await as("admin@example.com");
      const owner = await as("owner@example.com");
      const path = `/accounts/${account.id}/namespace`;

      expect((await owner("POST", path, { namespace: to.name })).status).toBe(403);
      const inUse = await admin("POST", path, { namespace: to.name });
      expect(inUse).toMatchObject({ status: 409, body: { code: "namespace_in_use" } });
      expect(inUse.body["error"]).toContain(`kubectl get scheduledjobs -n ${from.name}`);
      expect((await theirs("GET", "/jobs")).body).toMatchObject({ total: 1 });
      const unknown = `/accounts/${from.uid}/namespace`;
      expect((await admin("POST", unknown, { namespace: to.name })).status).toBe(404);
      expect((await admin("POST", path, { namespace: "Not_One" })).status).toBe(400);

      await deleteJob(from.name, "left-behind");
      await createJob(to.name, "was-there");
      const bound = await admin("POST", path, { namespace: to.name });
      expect(bound).toMatchObject({ status: 200, body: { namespace: to.name } });
      expect((await accounts().get(account.id))?.namespaceUid).toBe(to.uid);
      expect((await theirs("GET", "/jobs/was-there")).status).toBe(200);

      // A namespace belongs to one account.
      const made = await admin("POST", "/accounts", {
        name: "another",
        namespace: from.name,
        owner_email: "another@example.com",
      });
      expect(made.status).toBe(201);
      expect((await accounts().byName("another"))?.namespaceUid).toBe(from.uid);
      const taken = await admin("POST", path, { namespace: from.name });
      expect(taken.status).toBe(409);
      await deleteJob(to.name, "was-there");
      const held = await admin("POST", path, { namespace: from.name });
      expect(held).toMatchObject({ status: 400, body: { details: [{ field: "namespace" }] } });
    });

    test.skipIf(chrome === undefined)("by hand, on the accounts page", async () => {
      const { from, to } = await settled("by hand");
      const browser = await launchChrome(chrome ?? "");
      try {
        const { page, complaints } = await openWindow(browser, gateway.url);
        await signIn(page, { email: "admin@example.com", password: PASSWORD });
        await page.getByRole("link", { name: "Accounts" }).click();
        await page.getByRole("button", { name: "Bind by hand to a namespace" }).click();
        const dialog = page.getByRole("dialog");
        await dialog.getByText(`It is bound to ${from.name} now`).waitFor();
        await dialog.getByLabel("Kubernetes namespace").fill(to.name);
        await dialog.getByRole("button", { name: "Bind" }).click();
        await dialog.getByRole("alert").getByText("which has ScheduledJobs").waitFor();
        await deleteJob(from.name, "left-behind");
        await dialog.getByRole("button", { name: "Bind" }).click();
        await page.getByRole("cell", { name: to.name }).waitFor();
        expect((await accounts().byName("by hand"))?.namespaceUid).toBe(to.uid);
        expect(complaints).toEqual([]);
      } finally {
        await browser.close();
      }
    });
  });
});
