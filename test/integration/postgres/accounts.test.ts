import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { InvalidInput } from "../../../src/domain/findings.ts";
import { purgeableAccounts, purgeAccount } from "../../../src/postgres/account-purge.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createApiKeys } from "../../../src/postgres/api-keys.ts";
import { createEmailLog } from "../../../src/postgres/email-log.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createSessions } from "../../../src/postgres/sessions.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

const nothing = async () => undefined;
const fail = () => Promise.reject(new Error("in use"));

async function findings(work: Promise<unknown>): Promise<string[]> {
  const error = await work.then(
    () => undefined,
    (e: unknown) => e,
  );
  if (!(error instanceof InvalidInput)) throw new Error("expected InvalidInput", { cause: error });
  return error.findings.map((f) => f.field);
}

describe("accounts", () => {
  test("are created, found by name without regard to case, listed and changed", async () => {
    const accounts = createAccounts({ pool });
    const made = await accounts.create({ name: "Team A" });
    expect(made).toMatchObject({
      name: "Team A",
      namespace: null,
      timeZone: "UTC",
      deletedAt: null,
    });
    expect(Number.isInteger(made.createdAt)).toBe(true);
    expect(await accounts.byName("team a")).toEqual(made);
    expect(await accounts.get(made.id)).toEqual(made);
    expect(await accounts.list()).toContainEqual(made);
    const changed = await accounts.update(made.id, { retentionDays: 7, timeZone: "Europe/Paris" });
    expect(changed).toEqual({ ...made, retentionDays: 7, timeZone: "Europe/Paris" });
    expect(await accounts.update(made.id, { retentionDays: null })).toEqual({
      ...changed,
      retentionDays: null,
    });
    expect(await accounts.get("no-uuid")).toBeUndefined();
    expect(await accounts.get(randomUUID())).toBeUndefined();
  });

  test.each([
    { name: "" },
    { name: " a" },
    { name: "a\n" },
    { name: "a/b" },
    { name: "x".repeat(65) },
    // HTML shows one space: nobody could tell which name to type.
    { name: "a  b" },
  ])("refuses the name $name", async ({ name }) => {
    expect(await findings(createAccounts({ pool }).create({ name }))).toEqual(["name"]);
  });

  test("refuses what is wrong, by field", async () => {
    const accounts = createAccounts({ pool });
    const { id } = await accounts.create({ name: "fields" });
    expect(await findings(accounts.create({ name: "n", namespace: "Not_One" }))).toEqual([
      "namespace",
    ]);
    for (const retentionDays of [0, 1.5])
      expect(await findings(accounts.update(id, { retentionDays }))).toEqual(["retention_days"]);
    for (const timeZone of ["Mars/Olympus", "+01:00", "PST"])
      expect(await findings(accounts.update(id, { timeZone }))).toEqual(["time_zone"]);
    expect(await findings(accounts.update(randomUUID(), { timeZone: "UTC" }))).toEqual(["account"]);
    expect(await findings(accounts.bind(randomUUID(), "ns", "u"))).toEqual(["account"]);
  });

  test("of twenty creations of one name at once, one wins", async () => {
    const accounts = createAccounts({ pool });
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => accounts.create({ name: i % 2 ? "racer" : "RACER" })),
    );
    expect(results.filter((r) => r.status === "fulfilled")).toHaveLength(1);
    expect(
      results.filter((r) => r.status === "rejected" && r.reason instanceof InvalidInput),
    ).toHaveLength(19);
  });

  test("hold one namespace each, by name and incarnation", async () => {
    const accounts = createAccounts({ pool });
    const a = await accounts.create({ name: "ns-a", namespace: "team-a", namespaceUid: "u1" });
    const b = await accounts.create({ name: "ns-b" });
    expect((await accounts.byNamespace("team-a", "u1"))?.id).toBe(a.id);
    expect(await accounts.byNamespace("team-a", "u2")).toBeUndefined();
    expect(await findings(accounts.bind(b.id, "team-a", "u2"))).toEqual(["namespace"]);
    expect(await findings(accounts.create({ name: "ns-c", namespace: "team-a" }))).toEqual([
      "namespace",
    ]);
    expect((await accounts.bind(a.id, "team-b", "u3")).namespace).toBe("team-b");
    expect((await accounts.bind(b.id, "team-a", "u2")).namespaceUid).toBe("u2");
    await accounts.delete(b.id);
    expect(await accounts.byNamespace("team-a", "u2")).toBeUndefined();
    await accounts.bind(a.id, "team-a", "u2");
  });

  test("bound by name alone, the first incarnation that is seen becomes the bound one", async () => {
    const accounts = createAccounts({ pool });
    const made = await accounts.create({ name: "by-name", namespace: "later" });
    const seen = await Promise.all([
      accounts.byNamespace("later", "u1"),
      accounts.byNamespace("later", "u2"),
      accounts.byNamespace("later", "u1"),
    ]);
    const bound = (await accounts.get(made.id))?.namespaceUid;
    expect(["u1", "u2"]).toContain(bound);
    expect(seen.map((s) => s?.namespaceUid)).toEqual(
      ["u1", "u2", "u1"].map((uid) => (uid === bound ? uid : undefined)),
    );
  });

  test("are leaving from before the look at their namespace until they have moved or stay", async () => {
    const { id } = await createAccounts({ pool }).create({ name: "leaver", namespace: "leaver-a" });
    const bound = async () => {
      const [binding, ...more] = await createAccounts({ pool }).bindings([id, randomUUID(), "no"]);
      expect(more).toEqual([]);
      return binding && { namespace: binding.namespace, leaving: binding.leaving };
    };
    /** Binds, and does `during` after the look. */
    const bind = (namespace: string, during: () => Promise<unknown>) =>
      createAccounts({
        pool,
        onLeave: async () => {
          expect(await bound()).toMatchObject({ leaving: true });
          await during();
        },
      }).bind(id, namespace, "");

    expect(await bound()).toEqual({ namespace: "leaver-a", leaving: false });
    await expect(bind("leaver-b", fail)).rejects.toThrow("in use");
    expect(await bound()).toEqual({ namespace: "leaver-a", leaving: false });
    await bind("leaver-b", nothing);
    expect(await bound()).toEqual({ namespace: "leaver-b", leaving: false });

    // One that gives up, and one that binds the same namespace again, end what was under way: jobs may be made meanwhile.
    for (const other of [() => bind("leaver-c", fail), () => bind("leaver-b", nothing)]) {
      const moved = bind("leaver-c", () => other().catch(nothing));
      expect(await findings(moved)).toEqual(["account"]);
      expect(await bound()).toEqual({ namespace: "leaver-b", leaving: false });
    }
  });

  test("keep their destination rules", async () => {
    const accounts = createAccounts({ pool });
    const { id } = await accounts.create({ name: "rules" });
    await accounts.allow(id, "10.0.0.0/8:80");
    await accounts.allow(id, "10.0.0.0/8:80");
    await accounts.allow(id, "fd00::/8");
    expect(await accounts.allowedDestinations(id)).toEqual(["10.0.0.0/8:80", "fd00::/8"]);
    expect(await accounts.disallow(id, "fd00::/8")).toBe(true);
    expect(await accounts.disallow(id, "fd00::/8")).toBe(false);
    expect(await findings(accounts.allow(id, "example.com"))).toEqual(["rule"]);
    expect(await findings(accounts.allow(randomUUID(), "10.0.0.0/8"))).toEqual(["account"]);
  });

  test("deletion stops keys, users and sessions at once, frees the name, and purges after 30 days", async () => {
    const cancelled: string[] = [];
    const accounts = createAccounts({
      pool,
      onDelete: async (client, account) => {
        await client.query("select 1");
        cancelled.push(account);
      },
    });
    const keys = createApiKeys({ pool });
    const users = createUsers({ pool });
    const sessions = createSessions({ pool });
    const log = createEmailLog({ pool });
    const { id } = await accounts.create({ name: "leaving" });
    const { raw } = await keys.create(id, "l");
    const user = await users.create({
      account: id,
      email: "l@example.com",
      password: "long enough",
    });
    const token = (await sessions.create(user.id))?.token ?? "";
    await log.append({
      account: id,
      kind: "email",
      to: "a@x.io",
      subject: "s",
      status: "sent",
      errorMessage: null,
    });
    await accounts.delete(id);
    await accounts.delete(id);
    expect(cancelled).toContain(id);
    expect(await keys.authenticate(raw)).toBeUndefined();
    expect(await sessions.authenticate(token)).toBeUndefined();
    expect(
      await users.verify({ email: "l@example.com", password: "long enough", party: "test" }),
    ).toBeUndefined();
    expect(await findings(keys.create(id, "again"))).toEqual(["account"]);
    expect(await accounts.byName("leaving")).toBeUndefined();
    expect((await accounts.get(id))?.deletedAt).toEqual(expect.any(Number));
    const again = await accounts.create({ name: "leaving" });
    await users.create({ account: again.id, email: "l@example.com", password: "long enough" });

    expect(await purgeableAccounts({ pool })).not.toContain(id);
    await pool.query("update accounts set deleted_at = now() - interval '30 days' where id = $1", [
      id,
    ]);
    expect(await purgeableAccounts({ pool })).toContain(id);
    await purgeAccount({ pool, account: id });
    expect(await accounts.get(id)).toBeUndefined();
    expect(await log.list({ account: id, limit: 1, offset: 0 })).toEqual({ logs: [], total: 0 });
  });

  test("a deletion whose cancelling fails deletes nothing", async () => {
    const accounts = createAccounts({
      pool,
      onDelete: async () => {
        throw new Error("no cancelling today");
      },
    });
    const keys = createApiKeys({ pool });
    const { id } = await accounts.create({ name: "staying" });
    const { raw } = await keys.create(id, "l");
    await expect(accounts.delete(id)).rejects.toThrow("no cancelling today");
    expect((await keys.authenticate(raw))?.account).toBe(id);
  });
});
