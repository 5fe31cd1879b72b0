import type { Cursor } from "../cursor.ts";
import type { Instant } from "../instant.ts";
import type { Execution, LastExecution, MissedSpan } from "../run.ts";

export interface JobHistory {
  lastScheduleTime: Instant | null;
  /** When the latest attempt that succeeded began. */
  lastSuccessTime: Instant | null;
  last: LastExecution | null;
}

/** One page of what became of a job: newest first, the id as tie-break; of every incarnation of (account, id). */
export interface HistoryQuery {
  account: string;
  jobId: string;
  limit: number;
  offset: number;
  status?: Execution["status"];
}

/** A one-time job that is over. */
export interface FinishedJob {
  account: string;
  jobId: string;
  cursor: Cursor;
}

/** What became of runs: for the gateway, and for the status of resources. */
export interface RunHistory {
  cursor(jobUid: string): Promise<Cursor | undefined>;
  cursors(jobUids: readonly string[]): Promise<Map<string, Cursor>>;
  summary(jobUids: readonly string[]): Promise<Map<string, JobHistory>>;
  executions(query: HistoryQuery): Promise<Execution[]>;
  /** Executions (of `status`) and all missed spans in one list (`include=missed`). */
  executionsAndMissed(
    query: HistoryQuery,
  ): Promise<
    (({ kind: "execution" } & Execution) | ({ kind: "missed"; id: string } & MissedSpan))[]
  >;
  /** Whether any trace (cursor, execution, missed span) of the job exists. */
  hasTrace(account: string, jobId: string): Promise<boolean>;
  /**
   * Uids of finished one-time jobs, in their order, from `after` (exclusive): completed, failed or missed, with an
   * account, last decided on before `before`, and with an id that matches `jobIds`. Reads every cursor.
   */
  finished(query: {
    before: Instant;
    jobIds: RegExp;
    after: string | undefined;
    limit: number;
  }): Promise<string[]>;
  /** Such a job, if it is still finished, its last attempt was before `before` too, and it has no unfinished run. */
  finishedJob(query: { before: Instant; jobUid: string }): Promise<FinishedJob | undefined>;
}
