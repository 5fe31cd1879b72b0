import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import { claimed, claimOne, job, runsFixture, success, type RunsFixture } from "./runs-fixture.ts";

let fixture: RunsFixture;
let pool: Pool;
beforeAll(async () => {
  fixture = await runsFixture();
  // One connection, which has planned nothing yet.
  pool = createPool({ url: fixture.url, applicationName: "plans", max: 1, plans: "fixed" });
});
afterAll(async () => {
  await pool?.end();
  await fixture?.close();
});

/** The queue is empty most of the time, and a vacuum says so to the planner: then comes the herd. */
test("statements on runs look rows up by key, however empty the tables were when last looked at", async () => {
  const statements = await statementsOfAWorker();
  await pool.query(`insert into runs
      (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
    select gen_random_uuid(), gen_random_uuid(), 'j', 1, 'manual', n::text, now(), now(), 'd'
      from generate_series(1, 1000) as n`);
  for (const table of TABLES) {
    await pool.query(`delete from ${table}`);
    await pool.query(`vacuum analyze ${table}`);
  }

  const scans: string[] = [];
  for (const { name, text } of statements) {
    const { rows } = await pool.query<{ "QUERY PLAN": string }>(
      `explain (generic_plan, costs off) ${text}`,
    );
    const plan = rows.map((row) => row["QUERY PLAN"]);
    for (const [index, line] of plan.entries()) {
      const table = / on (\w+)/.exec(line)?.[1] ?? "";
      if (!line.includes("Scan") || !TABLES.includes(table)) continue;
      if (!plan[index + 1]?.includes("Index Cond:")) scans.push(`${name}: ${line.trim()}`);
    }
  }
  expect(statements.map(({ name }) => name).sort()).toEqual([
    "claim_runs",
    "close_runs",
    "drop_unwanted_runs",
    "release_runs",
    "renew_claims",
    "retry_runs",
    "start_runs",
  ]);
  expect(scans).toEqual([]);
});

const TABLES = ["runs", "job_cursors", "job_revisions"];

/** What a worker says in a life of a few runs, as PostgreSQL gets it. */
async function statementsOfAWorker(): Promise<{ name: string; text: string }[]> {
  const said = new Map<string, string>();
  const listening = new Proxy(pool, {
    get: (target, key) =>
      key === "query"
        ? async (query: string | { name?: string; text: string }, values?: unknown[]) => {
            if (typeof query !== "string" && query.name !== undefined)
              said.set(query.name, query.text);
            return target.query(query as string, values);
          }
        : (Reflect.get(target, key) as unknown),
  });
  const queue = createRunQueue({
    pool: listening,
    leasePool: listening,
    notifications: { on: () => () => undefined } as never,
    random: () => 0.5,
  });
  const of = job();
  const run = await claimed({ ledger: fixture.ledger, queue }, of);
  await queue.renew([run], 10_000);
  await queue.release([run], Date.now() - 1_000);
  const again = await claimOne(queue, of);
  await queue.start([again]);
  await queue.close([{ ...success(again), next: "retry", notBefore: Date.now() - 1_000 }]);
  const last = await claimOne(queue, of);
  await queue.start([last]);
  await queue.close([success(last)]);
  // Nobody's any more: looked at once more by the second, rare statement.
  await queue.start([last]);
  return Array.from(said, ([name, text]) => ({ name, text }));
}
