import { randomBytes } from "node:crypto";
import { afterEach, expect, test } from "vitest";
import {
  checkSchema,
  compareVersions,
  DatabaseTooNew,
  DatabaseTooOld,
  migrate,
} from "../../../src/postgres/migrate.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { admin } from "../../postgres/admin.ts";
import { createEmptyDatabase, type TestDatabase } from "../../postgres/database.ts";

const databases: TestDatabase[] = [];
async function empty(): Promise<TestDatabase> {
  const database = await createEmptyDatabase();
  databases.push(database);
  return database;
}
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
});

test("several processes at once: one migrates, the others wait and find nothing to do", async () => {
  const { url } = await empty();
  const lines: string[] = [];
  const results = await Promise.all(
    Array.from({ length: 4 }, () =>
      migrate({ url, appVersion: "1.0.0", onProgress: (line) => lines.push(line) }),
    ),
  );
  const applied = results.filter((result) => result.applied.length > 0);
  expect(applied).toHaveLength(1);
  expect(applied[0]?.applied[0]).toBe("0001_accounts");
  expect(lines[0]).toMatch(/0001_accounts/);
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: [] });
});

test("a database that needs a newer program is refused, and left alone", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  await pool.query("update carillon_meta set value = '2.1.0' where key = 'min_app_version'");
  await expect(migrate({ url, appVersion: "2.0.9" })).rejects.toThrow(DatabaseTooNew);
  await expect(checkSchema({ pool, appVersion: "2.0.9" })).rejects.toThrow(
    /needs 2\.1\.0 or newer/,
  );
  await checkSchema({ pool, appVersion: "2.1.0" });
  await pool.end();
});

test("a release that is one behind works on a database that is ahead", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  await pool.query(
    "insert into carillon_migrations (name, run_on) values ('9999_of_the_next_release', now())",
  );
  await checkSchema({ pool, appVersion: "1.0.0" });
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: [] });
  await pool.end();
});

test("a database without our schema says what to do", async () => {
  const { url } = await empty();
  const pool = createPool({ url, applicationName: "test" });
  await expect(checkSchema({ pool, appVersion: "1.0.0" })).rejects.toThrow(DatabaseTooOld);
  await pool.end();
});

test("a role that may not create tables is told so, in one line", async () => {
  const { url } = await empty();
  const role = `limited_${randomBytes(4).toString("hex")}`;
  await admin(url, `create role ${role} login password 'limited'`);
  const limited = new URL(url);
  limited.username = role;
  limited.password = "limited";
  try {
    await expect(migrate({ url: limited.href, appVersion: "1.0.0" })).rejects.toThrow(
      /^the migration failed: [^\n]*permission denied for schema public: the role of DATABASE_URL [^\n]*$/,
    );
  } finally {
    await admin(url, `drop role ${role}`);
  }
});

const versions = [
  { a: "0.1.0", b: "0.1.0", sign: 0 },
  { a: "0.10.0", b: "0.9.9", sign: 1 },
  { a: "1.0.0", b: "1.0.1", sign: -1 },
  { a: "1.2.0-rc.1", b: "1.2.0", sign: 0 },
];
for (const { a, b, sign } of versions)
  test(`${a} against ${b}`, () => {
    expect(Math.sign(compareVersions(a, b))).toBe(sign);
  });
