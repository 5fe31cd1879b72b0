import { afterAll, beforeAll, expect, test } from "vitest";
import { assertOwnSessions, SessionsShared } from "../../../src/postgres/own-sessions.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
const pools: Pool[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(async () => {
  for (const pool of pools) await pool.end();
  await database?.drop();
});

function poolOfOne(): Pool {
  const pool = createPool({ url: database.url, applicationName: "test", max: 1 });
  pools.push(pool);
  return pool;
}

test("two who get one session in turns, as through a pooler of transactions, are refused", async () => {
  const shared = poolOfOne();
  await expect(assertOwnSessions(shared, shared)).rejects.toThrow(SessionsShared);
});

test("two with sessions of their own are not", async () => {
  await expect(assertOwnSessions(poolOfOne(), poolOfOne())).resolves.toBeUndefined();
});
