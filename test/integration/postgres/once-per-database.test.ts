import { beforeAll, expect, test } from "vitest";
import { oncePerDatabase } from "../../../src/postgres/once-per-database.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool({ max: 1 });
  return () => database.drop();
});

/** How many sessions wait for an advisory lock. */
const waiting = async () => {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from pg_locks l join pg_database d on d.oid = l.database
      where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`,
  );
  return rows[0]?.count;
};

test("of several at once one does it, and the others wait until it is done", async () => {
  let done = 0;
  const comers = Array.from({ length: 4 }, async () => {
    await oncePerDatabase({
      url: database.url,
      key: "at once",
      work: async () => {
        await expect.poll(waiting).toBe(3);
        done += 1;
      },
    });
    return done;
  });
  expect(await Promise.all(comers)).toEqual([1, 1, 1, 1]);
});

test("they wait for as long as it takes, whatever time limits the role has", async () => {
  const theirs = ["transaction_timeout", "statement_timeout", "lock_timeout"];
  const options = theirs.map((setting) => `-c ${setting}=200ms`).join(" ");
  let done = 0;
  const comers = Array.from({ length: 2 }, () =>
    oncePerDatabase({
      url: `${database.url}?options=${encodeURIComponent(options)}`,
      key: "for long",
      work: async () => {
        await expect.poll(waiting).toBe(1);
        await pool.query("select pg_sleep(0.5)");
        done += 1;
      },
    }),
  );
  await Promise.all(comers);
  expect(done).toBe(1);
});

test("what failed is done by the next, and then never again", async () => {
  const outcomes: string[] = [];
  const attempt = (outcome: string, work: () => Promise<void>) =>
    oncePerDatabase({
      url: database.url,
      key: "failed at first",
      work: async () => {
        outcomes.push(outcome);
        await work();
      },
    });
  await expect(
    attempt("fails", async () => {
      throw new Error("half-way");
    }),
  ).rejects.toThrow("half-way");
  await attempt("succeeds", async () => undefined);
  await attempt("again", async () => undefined);
  expect(outcomes).toEqual(["fails", "succeeds"]);
});
