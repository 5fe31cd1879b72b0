import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DAY } from "../../../src/domain/instant.ts";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createOtps } from "../../../src/postgres/otps.ts";
import { createRetention } from "../../../src/postgres/retention.ts";
import {
  change,
  claimed,
  cursorOf,
  job,
  runsFixture,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import type { Job } from "../../../src/domain/job.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
});
afterAll(async () => {
  await fixture?.close();
});

const run = (executionsDays: number) =>
  createRetention({
    pool: fixture.pool,
    clock: { known: true, now: () => Date.now() },
    executionsDays,
    logsDays: 90,
  }).run(new AbortController().signal);

async function executed(of: Job, daysAgo: number): Promise<void> {
  const attempt = await claimed(fixture, of, { at: Date.now() - daysAgo * DAY });
  await fixture.queue.start([attempt]);
  await fixture.queue.close([success(attempt, Date.now() - daysAgo * DAY)]);
}

const ages = async (of: Job) =>
  (
    await fixture.history.executions({
      account: of.account ?? "",
      jobId: of.id,
      limit: 100,
      offset: 0,
    })
  ).map((execution) => Math.round((Date.now() - execution.executedAt) / DAY));

const count = async (table: string, uid: string) =>
  (
    await fixture.pool.query<{ n: number }>(
      `select count(*) as n from ${table} where job_uid = $1`,
      [uid],
    )
  ).rows[0]?.n;

test("months beyond the maximum go; 0 keeps all; months ahead are there", async () => {
  const of = job();
  for (const age of [400, 200, 1]) await executed(of, age);
  await run(0);
  expect(await ages(of)).toEqual([1, 200, 400]);
  await run(90);
  expect(await ages(of)).toEqual([1]);
  const { rows } = await fixture.pool.query<{ found: boolean }>(
    "select to_regclass('executions_' || to_char(now() + interval '2 months', 'YYYY_MM')) is not null as found",
  );
  expect(rows[0]?.found).toBe(true);
});

test("an account that keeps less loses its own older rows only", async () => {
  const [short, long] = [job(), job()];
  await fixture.pool.query(
    "insert into accounts (id, name, retention_days) values ($1::uuid, $1::text, 7)",
    [short.account],
  );
  for (const of of [short, long]) for (const age of [20, 3]) await executed(of, age);
  await run(90);
  expect(await ages(short)).toEqual([3]);
  expect(await ages(long)).toEqual([3, 20]);
});

test("passcodes whose limits have run out go, and circuits of killed processes", async () => {
  const { pool } = fixture;
  const account = randomUUID();
  const otps = createOtps({
    pool,
    keyRing: parseKeyRing(`k:${randomBytes(32).toString("base64")}`),
  });
  const circuits = createCircuits({ pool });
  for (const age of ["59 minutes", "61 minutes"]) {
    await otps.issue(account, `${age}@example.com`);
    await circuits.publish({ account, destination: age, worker: "killed", state: "open" });
    await pool.query(
      "update otps set updated_at = now() - $2::interval where account = $1 and address = $3",
      [account, age, `${age}@example.com`],
    );
    await pool.query(
      "update circuits set updated_at = now() - $2::interval where account = $1 and destination = $2::text",
      [account, age],
    );
  }
  await run(0);
  const left = async (column: string, table: string) =>
    (
      await pool.query<{ left: string }>(
        `select ${column} as left from ${table} where account = $1`,
        [account],
      )
    ).rows.map((row) => row.left);
  expect(await left("address", "otps")).toEqual(["59 minutes@example.com"]);
  expect(await left("destination", "circuits")).toEqual(["59 minutes"]);
});

test("a deleted job's cursor, revisions and keys stay a week; old revisions of a live one go", async () => {
  const [fresh, old, live] = [job(), job(), job()];
  for (const of of [fresh, old, live]) {
    await fixture.ledger.apply([change(of)]);
    await fixture.ledger.runNow(of, "key");
  }
  await fixture.ledger.cancel([fresh.uid, old.uid]);
  await fixture.pool.query(
    "update job_cursors set deleted_at = now() - interval '8 days' where job_uid = $1",
    [old.uid],
  );
  const from = await cursorOf(fixture.ledger, live);
  await fixture.ledger.apply([change({ ...live, generation: 2 }, { from })]);
  await run(90);
  for (const table of ["job_cursors", "job_revisions", "manual_run_keys"]) {
    expect([table, await count(table, fresh.uid)]).toEqual([table, 1]);
    expect([table, await count(table, old.uid)]).toEqual([table, 0]);
    expect([table, await count(table, live.uid)]).toEqual([table, 1]);
  }
  await fixture.ledger.cancel([live.uid]);
});

test("an account deleted 30 days ago is purged whole", async () => {
  const of = job();
  await fixture.pool.query(
    "insert into accounts (id, name, deleted_at) values ($1::uuid, $1::text, null)",
    [of.account],
  );
  await executed(of, 1);
  await fixture.pool.query(
    "update accounts set deleted_at = now() - interval '31 days' where id = $1",
    [of.account],
  );
  await run(90);
  expect(await ages(of)).toEqual([]);
  const { rowCount } = await fixture.pool.query("select from accounts where id = $1", [of.account]);
  expect(rowCount).toBe(0);
});
