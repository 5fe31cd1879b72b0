import type { Pool } from "../../src/postgres/pool.ts";
import type { RecordedExecution, RecordedSpan, UnfinishedRun } from "./evidence.ts";

/** What the system has recorded about its runs. */
export interface Records {
  executions: RecordedExecution[];
  missed: RecordedSpan[];
  unfinished: UnfinishedRun[];
}

/** Reads unfinished runs first, so that a run that ends between two queries is in both results, not in none. */
export async function readRecords(pool: Pool): Promise<Records> {
  const unfinished = await pool.query<UnfinishedRun>(
    `select id as "runId", job_id as "jobId", scheduled_at as "scheduledAt", trigger from runs`,
  );
  const executions = await pool.query<RecordedExecution>(
    `select job_id as "jobId", run_id as "runId", scheduled_at as "scheduledAt", attempt, status,
            error_message as "errorMessage", trigger
       from executions order by executed_at, id`,
  );
  const missed = await pool.query<RecordedSpan>(
    `select job_id as "jobId", first_at as first, last_at as last, count, reason from missed_spans`,
  );
  return { executions: executions.rows, missed: missed.rows, unfinished: unfinished.rows };
}
