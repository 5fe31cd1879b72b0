import { beforeAll, beforeEach, expect, test } from "vitest";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createSignInBrake, deleteOldSignInFailures } from "../../../src/postgres/sign-in-brake.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});
beforeEach(async () => {
  await pool.query("delete from sign_in_failures");
});

const take = (email = "owner@example.com", client = "192.0.2.1") =>
  createSignInBrake({ pool }).take(email, client);

/** Seconds from the last try until the next is let through. */
async function wait(): Promise<number> {
  const { rows } = await pool.query<{ seconds: number }>(
    "select round(extract(epoch from next_at - last_at))::int as seconds from sign_in_failures",
  );
  return rows[0]?.seconds ?? NaN;
}

async function elapse(interval: string): Promise<void> {
  await pool.query(
    "update sign_in_failures set last_at = last_at - $1::interval, next_at = next_at - $1::interval",
    [interval],
  );
}

test("five tries are let through at once, then the wait doubles from a second to five minutes", async () => {
  const waits: number[] = [];
  for (let tries = 1; tries <= 15; tries += 1) {
    expect(await take()).toEqual({ kind: "go" });
    waits.push(await wait());
    await elapse("6 minutes");
  }
  expect(waits).toEqual([0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
});

test("who comes too early hears for how long, and waits no longer for it", async () => {
  for (let tries = 1; tries <= 15; tries += 1) {
    await take();
    await elapse("6 minutes");
  }
  await take();
  await elapse("2 minutes");
  const early = await take();
  const seconds = early.kind === "wait" ? early.retryAfterSeconds : NaN;
  expect(seconds).toBeGreaterThan(120);
  expect(seconds).toBeLessThanOrEqual(180);
  await elapse("3 minutes");
  expect(await take()).toEqual({ kind: "go" });
});

test("after an hour of quiet it starts afresh", async () => {
  for (let tries = 1; tries <= 8; tries += 1) {
    await take();
    await elapse("1 minute");
  }
  await elapse("1 hour");
  for (let tries = 1; tries <= 2; tries += 1) {
    await take();
    expect(await wait()).toBe(0);
  }
});

test("whoever goes on for weeks waits no longer than that", async () => {
  await take();
  await pool.query("update sign_in_failures set failures = 1000000");
  expect(await take()).toEqual({ kind: "go" });
  expect(await wait()).toBe(300);
});

test("an hour after the last try nothing is kept", async () => {
  await take();
  await elapse("59 minutes");
  expect(await deleteOldSignInFailures({ pool })).toBe(0);
  await elapse("1 minute");
  expect(await deleteOldSignInFailures({ pool })).toBe(1);
});

test("who has signed in is forgotten, however the address was written, and nobody else", async () => {
  await take("Owner@Example.com");
  await take("member@example.com");
  await take("owner@example.com", "192.0.2.2");
  await createSignInBrake({ pool }).forget("owner@EXAMPLE.com", "192.0.2.1");
  const { rows } = await pool.query("select from sign_in_failures");
  expect(rows).toHaveLength(2);
});
