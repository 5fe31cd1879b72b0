import type { Cursor } from "../cursor.ts";
import type { Timing } from "../timing.ts";
import type { JobStatus } from "../job.ts";
import type { JobOutline } from "../job-outline.ts";
import type { DecidedReason, MissedSpan } from "../run.ts";

/** What the leader knows about a job after it reconciled it. */
export interface Reconciled {
  /** As stored; its generation is the observed one. */
  cursor: Cursor;
  status: JobStatus;
  timing: Timing;
}

export interface Observed extends Reconciled {
  /** Fire times that this reconcile recorded as not run, for events. */
  missed: readonly MissedSpan<DecidedReason>[];
}

/**
 * Writes the leader's view of a job to its resource (status and events). Called on every reconcile that changed
 * something, and once for each job after a take-over; must neither throw nor wait. The reporter coalesces, limits its
 * rate, and adds what workers record (last run) from RunHistory.
 */
export interface StatusReporter {
  report(job: JobOutline, observed: Observed): void;
  /** Workers have just recorded attempts of these jobs; jobs that were never reported are ignored. */
  closed(jobUids: readonly string[]): void;
  /** The job is gone. */
  forget(jobUid: string): void;
  /** Leadership was lost: drop everything that has not been written. */
  clear(): void;
}
