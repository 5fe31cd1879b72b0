import { afterAll, beforeAll, expect, test } from "vitest";
import { onceSpec } from "../../conformance/job-store.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import {
  change,
  claimed,
  claimOne,
  cursorOf,
  job,
  runsFixture,
  scheduled,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";

let fixture: RunsFixture;
let pool: Pool;
beforeAll(async () => {
  fixture = await runsFixture();
  // One connection, which has not planned any statement yet.
  pool = createPool({ url: fixture.url, applicationName: "plans", max: 1, plans: "fixed" });
});
afterAll(async () => {
  await pool?.end();
  await fixture?.close();
});

const RUNS_OF_OTHERS = `insert into runs
      (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
    select gen_random_uuid(), gen_random_uuid(), 'j', 1, 'schedule', n::text, now(), now(), 'd'
      from generate_series(1, 5000) as n`;

/**
 * The queue is empty most of the time, and vacuum tells the planner so; or it has had no manual runs, which are not worth
 * a look then. And then many runs come at once.
 */
test("statements on runs look rows up by key, whatever was in the tables when last looked at", async () => {
  const said = await statements();
  await pool.query(RUNS_OF_OTHERS);
  for (const table of TABLES) {
    await pool.query(`delete from ${table}`);
    await pool.query(`vacuum analyze ${table}`);
  }
  const scans = await scansOf(said.keys());
  await pool.query(RUNS_OF_OTHERS);
  await pool.query("vacuum analyze runs");
  scans.push(...(await scansOf(said.keys())));
  expect(scans).toEqual([]);
  // The statements of a worker have names. The others, at least as many, are a leader's.
  const names = [...said.values()];
  expect(names.filter((name) => name !== undefined).toSorted()).toEqual([
    "claim_runs",
    "close_runs",
    "drop_unwanted_runs",
    "release_runs",
    "renew_claims",
    "retry_runs",
    "start_runs",
  ]);
  expect(names.length).toBeGreaterThan(20);
});

/** What the plans of the statements read of our tables otherwise than by keys. */
async function scansOf(statements: Iterable<string>): Promise<string[]> {
  const scans: string[] = [];
  for (const statement of statements) {
    const { rows } = await pool.query<{ "QUERY PLAN": string }>(
      `explain (generic_plan, costs off) ${statement}`,
    );
    const plan = rows.map((row) => row["QUERY PLAN"]);
    for (const [index, line] of plan.entries()) {
      // Executions have a partition for each month.
      const table = / on (\w+?)(?:_\d{4}_\d\d)?\b/.exec(line)?.[1] ?? "";
      if (!line.includes("Scan") || !TABLES.includes(table)) continue;
      // A line in between may say that the planner had no choice.
      const next = plan[index + 1]?.includes("Disabled") ? index + 2 : index + 1;
      // A condition on the trigger alone skips through the index, and reads the runs of all jobs.
      const how = (plan[next] ?? "").replace(/\(trigger = '\w+'::text\)/, "");
      if (!/(?:Index|TID) Cond: \S/.test(how) && !READS.some((on) => how.includes(on)))
        scans.push(`${line.trim()}: ${statement.replaceAll(/\s+/g, " ")}`);
    }
  }
  return scans;
}

const TABLES = ["runs", "job_cursors", "job_revisions", "manual_run_keys", "executions"];

/**
 * These look for runs of dead workers or of lost claims, and read the queue on purpose: no index has the leases
 * (migration 0007).
 */
const READS = ["lease_until <", "claim_token = ANY"];

/**
 * The statements of a leader and its workers during the life of a few runs, as PostgreSQL gets them: text → name, if
 * any.
 */
async function statements(): Promise<Map<string, string | undefined>> {
  const said = new Map<string, string | undefined>();
  const listening = listenedTo(pool, ({ text, name }) => {
    if (/^\s*(?:with|select|insert|update|delete)/.test(text)) said.set(text, name);
  });
  const ledger = createRunLedger({ pool: listening });
  const queue = createRunQueue({
    pool: listening,
    leasePool: listening,
    notifications: { on: () => () => undefined } as never,
    random: () => 0.5,
  });
  const parts = { ledger, queue };

  const of = job();
  const run = await claimed(parts, of);
  await queue.renew([run], 10_000);
  await queue.release([run], Date.now() - 1_000);
  const again = await claimOne(queue, of);
  await queue.start([again]);
  await queue.unwanted([again.id]);
  await queue.locked([again]);
  await ledger.locked([again.jobUid]);
  await queue.unclaim(["00000000-0000-4000-8000-000000000000"]);
  await queue.close([{ ...success(again), next: "retry", notBefore: Date.now() - 1_000 }]);
  const last = await claimOne(queue, of);
  await queue.start([last]);
  await queue.close([success(last)]);
  // The run no longer exists: a second, rare statement looks at it once more.
  await queue.start([last]);
  // A one-time that is moved back to a time at which it has run.
  const past = Date.now() - 60_000;
  const settled = job({ spec: onceSpec(past) });
  const ran = await claimed(parts, settled, { at: past, once: "fired" });
  await queue.start([ran]);
  await queue.close([success(ran)]);
  const reverted = { ...settled, generation: 2 };
  await ledger.apply([
    change(reverted, {
      from: await cursorOf(ledger, settled),
      create: [scheduled(ran.scheduledAt)],
      to: { once: "fired" },
    }),
  ]);
  expect((await cursorOf(ledger, settled)).once).toBe("completed");

  // A cron that is decided, after its clock stepped back, at a time before one at which it has run.
  const back = job();
  const later = await claimed(parts, back);
  await queue.start([later]);
  await queue.close([success(later)]);
  const create = [scheduled(past)];
  await ledger.apply([change(back, { from: await cursorOf(ledger, back), create })]);
  await ledger.cancel([back], back.account ?? "");

  await claimed(parts, job(), { leaseMs: -1 });
  await queue.reap();

  const at = Date.now() + 60_000;
  const from = await cursorOf(ledger, of);
  await ledger.apply([change(of, { from, create: [scheduled(at)], to: { position: at } })]);
  const [waiting] = (await ledger.unfinished([of.uid])).get(of.uid) ?? [];
  // An edit: the prepared run is dropped and prepared anew, and the cursor is set back.
  const edited = { ...of, generation: 2 };
  const missed = [{ first: at, last: at, count: 1, reason: "downtime" as const }];
  await ledger.apply([
    change(edited, {
      from: await cursorOf(ledger, of),
      create: [scheduled(at)],
      replace: waiting ? [waiting.id] : [],
      missed,
    }),
  ]);
  await ledger.runNow(of, "now");
  await ledger.cancel([of], of.account ?? "");
  return said;
}

interface Statement {
  text: string;
  name?: string;
}

/** The same pool, or a client of it; `heard` gets each of its statements. */
function listenedTo<T extends object>(to: T, heard: (statement: Statement) => void): T {
  return new Proxy(to, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function") return value;
      return async (...args: unknown[]) => {
        const [query] = args as [string | Statement | undefined];
        if (key === "query" && query !== undefined)
          heard(typeof query === "string" ? { text: query } : query);
        const result: unknown = await Reflect.apply(value, target, args);
        return key === "connect" ? listenedTo(result as object, heard) : result;
      };
    },
  });
}
