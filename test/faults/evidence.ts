/** What was asked of the system, what the receivers saw of it, and what the system says about it. */
import type { Instant } from "../../src/domain/instant.ts";
import type { ConcurrencyPolicy } from "../../src/domain/job.ts";

/**
 * `once`: delivered, or a reason recorded; exactly one of them. `optional`: an edit, pause or deletion
 * crossed it, so nothing is fine too. `never`: cancelled in good time, it must not fire.
 */
export type Rule = "once" | "optional" | "never";

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

/** One request as the receiver saw it. Written down at its headers, whatever became of it then. */
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
  /** When the receiver answered, or the connection was gone; null while neither is so. */
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

/** A job that was asked for when the last fault had ended: how long until it ran? */
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
  /** Still there when the system had time to settle. */
  unfinished: readonly UnfinishedRun[];
  /** Targets after it are none of this check's business. */
  until: Instant;
  /** Milliseconds between the receiver's idea of PostgreSQL's clock and the truth, at most. */
  clockError: number;
  recovery: Recovery;
}
