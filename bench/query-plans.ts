/**
 * Inserts 1,000,000 executions and as many log entries, and times the list queries of the hot paths, as the program
 * sends them: `node bench/query-plans.ts [rows]`. Exits with 1 when one takes 10 ms or more.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createEmailLog } from "../src/postgres/email-log.ts";
import { migrate } from "../src/postgres/migrate.ts";
import { createPool, type Pool } from "../src/postgres/pool.ts";
import { createRunHistory } from "../src/postgres/run-history.ts";
import { startEmbeddedPostgres } from "../src/standalone/embedded-postgres.ts";
import { median } from "./median.ts";

const ROWS = Number(process.argv[2] ?? 1_000_000);
const LIMIT_MS = 10;
const REPEATS = 15;
const ACCOUNT = "00000000-0000-7000-8000-000000000001";

/** All rows are one account's, over 90 days: half of the executions of one job, the others of 5,000 jobs. */
async function fill(pool: Pool): Promise<void> {
  await pool.query(
    "select executions_ensure_month(now() - n * interval '1 month'), email_log_ensure_month(now() - n * interval '1 month') from generate_series(0, 4) as n",
  );
  await pool.query(
    `insert into executions (account, job_id, job_uid, run_id, status, http_status, duration_ms,
                             error_message, executed_at, attempt, trigger, scheduled_at)
     select $1, case when n % 2 = 0 then 'job-busy' else 'job-' || (n % 10000) end, gen_random_uuid(),
            gen_random_uuid(), case when n % 10 = 0 then 'failed' else 'success' end,
            case when n % 10 = 0 then 500 else 200 end, n % 900,
            case when n % 10 = 0 then 'the receiver answered 500' end,
            now() - n * interval '90 days' / $2::int, 1, 'schedule',
            now() - n * interval '90 days' / $2::int
       from generate_series(1, $2::int) as n`,
    [ACCOUNT, ROWS],
  );
  await pool.query(
    `insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
     select $1, 'job-busy', gen_random_uuid(), now() - n * interval '1 minute',
            now() - n * interval '1 minute', 1, 'downtime' from generate_series(1, 10000) as n`,
    [ACCOUNT],
  );
  await pool.query(
    `with written as (
       insert into email_log (id, account, kind, recipient, subject, status, error_message, sent_at)
       select uuidv7(), $1, case when n % 3 = 0 then 'otp' else 'email' end,
              'user' || n % 50000 || '@example.com', 'Subject ' || n,
              case when n % 20 = 0 then 'failed' else 'sent' end,
              case when n % 20 = 0 then 'refused' end, now() - n * interval '90 days' / $2::int
         from generate_series(1, $2::int) as n
       returning account, sent_at, kind, status
     )
     insert into email_log_counts (account, day, kind, status, entries)
     select account, (sent_at at time zone 'UTC')::date, kind, status, count(*)
       from written group by 1, 2, 3, 4`,
    [ACCOUNT, ROWS],
  );
  for (const table of ["executions", "email_log", "email_log_counts", "missed_spans"])
    await pool.query(`vacuum analyze ${table}`);
}

async function timed(work: () => Promise<unknown>): Promise<{ first: number; median: number }> {
  const times: number[] = [];
  for (let i = 0; i < REPEATS; i += 1) {
    const begun = performance.now();
    await work();
    times.push(performance.now() - begun);
  }
  return { first: times[0] ?? 0, median: median(times) };
}

const dataDir = await mkdtemp(join(tmpdir(), "carillon-query-plans-"));
const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: "off" } });
const pool = createPool({ url: server.url, applicationName: "bench", statementTimeoutMs: 600_000 });
try {
  await migrate({ url: server.url, appVersion: "999.0.0" });
  console.log(`filling ${ROWS} executions and ${ROWS} log entries …`);
  await fill(pool);
  const history = createRunHistory({ pool });
  const log = createEmailLog({ pool });
  const busy = { account: ACCOUNT, jobId: "job-busy", limit: 20 };
  const cases: { query: string; work: () => Promise<unknown> }[] = [
    { query: "executions, newest 20", work: () => history.executions({ ...busy, offset: 0 }) },
    {
      query: "executions, 20 from 1,000",
      work: () => history.executions({ ...busy, offset: 1_000 }),
    },
    {
      query: "executions of a quiet job",
      work: () => history.executions({ ...busy, jobId: "job-4711", offset: 0 }),
    },
    {
      query: "executions, failed only",
      work: () => history.executions({ ...busy, offset: 0, status: "failed" }),
    },
    {
      query: "executions and missed",
      work: () => history.executionsAndMissed({ ...busy, offset: 0 }),
    },
    { query: "hasTrace", work: () => history.hasTrace(ACCOUNT, "job-none") },
    { query: "logs, newest 10", work: () => log.list({ account: ACCOUNT, limit: 10, offset: 0 }) },
    {
      query: "logs, 10 from 1,000",
      work: () => log.list({ account: ACCOUNT, limit: 10, offset: 1_000 }),
    },
    {
      query: "logs, failed only",
      work: () => log.list({ account: ACCOUNT, limit: 10, offset: 0, status: "failed" }),
    },
  ];
  for (const { query, work } of cases) {
    const { first, median: ms } = await timed(work);
    console.log(
      `${query.padEnd(28)} ${ms.toFixed(2).padStart(8)} ms   (first ${first.toFixed(2)})`,
    );
    if (ms >= LIMIT_MS) process.exitCode = 1;
  }
  const { rows } = await pool.query<{ "QUERY PLAN": string }>(
    `explain (analyze, buffers off) select * from executions
      where account = '${ACCOUNT}' and job_id = 'job-busy'
      order by executed_at desc, id desc limit 20 offset 0`,
  );
  console.log(rows.map((row) => row["QUERY PLAN"]).join("\n"));
} finally {
  await pool.end();
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}
