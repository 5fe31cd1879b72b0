import type { Cursor, OnceState } from "../domain/cursor.ts";
import type { Instant } from "../domain/instant.ts";
import type { Execution, LastExecution, RunTrigger } from "../domain/run.ts";

/** The columns of `job_cursors`, without the last execution. */
export const CURSOR_COLUMNS: readonly (keyof CursorRow)[] = [
  "job_uid",
  "account",
  "version",
  "position",
  "schedule_hash",
  "generation",
  "revision",
  "startable",
  "once",
  "halted_generation",
  "halted_at",
  "last_run_now",
  "deleted_at",
];

export interface CursorRow {
  job_uid: string;
  account: string | null;
  version: number;
  position: Instant;
  schedule_hash: string;
  generation: number;
  revision: string | null;
  startable: boolean;
  once: OnceState;
  halted_generation: number | null;
  halted_at: Instant | null;
  last_run_now: string | null;
  deleted_at: Instant | null;
}

export function cursorOf(row: CursorRow): Cursor {
  return {
    jobUid: row.job_uid,
    account: row.account,
    version: row.version,
    position: row.position,
    scheduleHash: row.schedule_hash,
    generation: row.generation,
    revision: row.revision,
    startable: row.startable,
    once: row.once,
    haltedGeneration: row.halted_generation,
    haltedAt: row.halted_at,
    lastRunNow: row.last_run_now,
    deleted: row.deleted_at !== null,
  };
}

export interface ExecutionRow {
  id: string;
  job_id: string;
  job_uid: string;
  run_id: string;
  status: "success" | "failed";
  http_status: number;
  duration_ms: number;
  error_message: string | null;
  executed_at: Instant;
  attempt: number;
  trigger: RunTrigger;
  scheduled_at: Instant;
}

/** The columns of a `LastExecution`. */
export type LastExecutionRow = Omit<ExecutionRow, "job_id" | "job_uid">;

/** The columns of `executions`. */
export const EXECUTION_COLUMNS: readonly (keyof ExecutionRow)[] = [
  "id",
  "job_id",
  "job_uid",
  "run_id",
  "status",
  "http_status",
  "duration_ms",
  "error_message",
  "executed_at",
  "attempt",
  "trigger",
  "scheduled_at",
];

/**
 * The columns of `job_cursors` with the last execution, by those of `executions`; all null while nothing was
 * attempted.
 */
export const LAST_EXECUTION = {
  id: "last_execution_id",
  run_id: "last_run_id",
  status: "last_status",
  http_status: "last_http_status",
  duration_ms: "last_duration_ms",
  error_message: "last_error_message",
  executed_at: "last_executed_at",
  attempt: "last_attempt",
  trigger: "last_trigger",
  scheduled_at: "last_scheduled_at",
} as const satisfies Record<keyof LastExecutionRow, string>;

export function executionOf(row: ExecutionRow): Execution {
  return { jobId: row.job_id, jobUid: row.job_uid, ...lastExecutionOf(row) };
}

export function lastExecutionOf(row: LastExecutionRow): LastExecution {
  return {
    id: row.id,
    runId: row.run_id,
    status: row.status,
    httpStatus: row.http_status,
    durationMs: row.duration_ms,
    errorMessage: row.error_message,
    executedAt: row.executed_at,
    attempt: row.attempt,
    trigger: row.trigger,
    scheduledAt: row.scheduled_at,
  };
}

/**
 * An array parameter, for values that need no quoting: uuids, numbers, `isoUtc` of moments, plain words. The driver
 * would check each of thousands of values for characters to escape.
 */
export function plainArray(values: readonly (string | number | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

/** An instant as a parameter of a statement. */
export type Moment = Date | "infinity";

export function momentOf(instant: Instant | undefined): Moment {
  return instant === undefined ? "infinity" : new Date(instant);
}
