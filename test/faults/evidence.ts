/** What was asked of the system, what the receivers saw, and what the system recorded. */
import type { Instant } from "../../src/domain/instant.ts";
import type { ConcurrencyPolicy } from "../../src/domain/job.ts";

/**
 * `once`: delivered, or recorded with a reason why not, but not both. `optional`: an edit, pause or deletion crossed
 * it, so it may also leave no trace. `never`: it was cancelled in good time, and must not fire.
 */
export type Rule = "once" | "optional" | "never";

/** A fire time that is expected of a job. */
export interface Target {
  at: Instant;
  rule: Rule;
}

export interface ExpectedJob {
  jobId: string;
  maxRetries: number;
  concurrencyPolicy: ConcurrencyPolicy;
  targets: readonly Target[];
  /** The one run that was asked for by hand; `at` is when. */
  manual?: Target;
}

/** One request as the receiver saw it. It is recorded as soon as it has its headers, whatever becomes of it then. */
export interface Arrival {
  /** `webhook-id`. */
  runId: string;
  /** `Carillon-Job-Id`. */
  jobId: string;
  /** `Carillon-Scheduled-At`. */
  scheduledAt: Instant;
  /** `Carillon-Attempt`. */
  attempt: number;
  /** On PostgreSQL's clock. */
  at: Instant;
  /** The status that the receiver sent; null when it never answered. */
  answered: number | null;
  /** When the receiver answered, or the connection ended; null before that. */
  endedAt: Instant | null;
}

export type Trigger = "schedule" | "manual";

export interface RecordedExecution {
  jobId: string;
  runId: string;
  scheduledAt: Instant;
  attempt: number;
  status: "success" | "failed";
  errorMessage: string | null;
  trigger: Trigger;
}

export interface RecordedSpan {
  jobId: string;
  first: Instant;
  last: Instant;
  count: number;
  reason: string;
}

export interface UnfinishedRun {
  runId: string;
  jobId: string;
  scheduledAt: Instant;
  trigger: Trigger;
}

/** How long it took until a job ran that was created when the last fault had ended. */
export interface Recovery {
  /** When the last fault ended. */
  from: Instant;
  deliveredAt: Instant | null;
}

export interface Evidence {
  jobs: readonly ExpectedJob[];
  arrivals: readonly Arrival[];
  executions: readonly RecordedExecution[];
  missed: readonly RecordedSpan[];
  /** Still there after the system had time to settle. */
  unfinished: readonly UnfinishedRun[];
  /** Fire times after this are not checked. */
  until: Instant;
  /** How far the receiver's measurement of PostgreSQL's clock may be off, in milliseconds. */
  clockError: number;
  recovery: Recovery;
}
