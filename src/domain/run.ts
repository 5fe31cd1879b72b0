import type { Instant } from "./instant.ts";
import type { JobSpec } from "./job.ts";

export type RunTrigger = "schedule" | "manual";

/**
 * An intended delivery. Its identity is (job uid, trigger, key): the scheduled time in ISO form for
 * schedules, the request id or annotation value for manual runs. The store refuses a second one.
 */
export interface NewRun {
  trigger: RunTrigger;
  key: string;
  /** The fire time; of a manual run the moment of its request, or that at which an annotation was seen. */
  scheduledAt: Instant;
}

/** A scheduled run that is queued, claimed, started, or awaits a retry or its circuit. */
export interface UnfinishedRun {
  id: string;
  scheduledAt: Instant;
  started: boolean;
  /** Attempts already recorded as executions. */
  attempts: number;
}

/** A run that a worker holds: everything an attempt needs, fixed at the run's generation. */
export interface ClaimedRun {
  id: string;
  /** Proof of the claim: every later write compares it. */
  claimToken: string;
  account: string;
  jobUid: string;
  jobId: string;
  generation: number;
  trigger: RunTrigger;
  scheduledAt: Instant;
  /** May not start before this moment. */
  notBefore: Instant;
  createdAt: Instant;
  /** 1 for the first attempt. */
  attempt: number;
  /** When this retry became due; an open circuit moves `notBefore`, not this. Null for a first attempt. */
  retryAt: Instant | null;
  /** `started` was committed together with the claim: it may be sent. */
  started: boolean;
  /** `destinationKey` of its target. */
  destination: string;
  spec: JobSpec;
}

/**
 * What one attempt came to. `httpStatus` is what the execution records. `destinationFault` is what the circuit learns:
 * null, nothing, because nobody was called; absent: retryable outcomes are the destination's fault, permanent ones not.
 */
export type DeliveryOutcome =
  | { kind: "delivered"; httpStatus: number }
  | {
      kind: "retryable";
      httpStatus: number;
      error: string;
      retryAfterMs: number | null;
      /** The receiver said so: whatever ended the attempt after that, its outcome is known. */
      answered?: true;
      destinationFault?: boolean | null;
    }
  | { kind: "permanent"; httpStatus: number; error: string; destinationFault?: boolean | null }
  /** 410 Gone: halts this generation. */
  | { kind: "gone"; httpStatus: 410; error: string }
  /** The circuit is open: nothing was sent, no execution is made. */
  | { kind: "postponed"; until: Instant };

/** An attempt's immutable record: the spec's execution fields and what we add. */
export interface Execution {
  id: string;
  jobId: string;
  jobUid: string;
  runId: string;
  status: "success" | "failed";
  httpStatus: number;
  durationMs: number;
  errorMessage: string | null;
  executedAt: Instant;
  attempt: number;
  trigger: RunTrigger;
  scheduledAt: Instant;
}

/** A job's last execution, for readers that know the job. */
export type LastExecution = Omit<Execution, "jobId" | "jobUid">;

export const MISSED_REASONS = [
  /** Nobody was there to create the run in time (downtime, leader change). */
  "downtime",
  /** The starting deadline had passed. */
  "deadline",
  /** concurrencyPolicy Forbid and an older run unfinished, or Replace before the older one had started. */
  "overlap",
  /** The job was changed, paused (also by a 410) or deleted before the run started. */
  "superseded",
  "paused",
  "deleted",
  /** The one-time's time lay before the job's creation. */
  "past_at_creation",
  "account_deleted",
] as const;
export type MissedReason = (typeof MISSED_REASONS)[number];
/** Why a decision creates no run. The other reasons are those for which a run is dropped. */
export type DecidedReason = Exclude<MissedReason, "superseded" | "deleted" | "account_deleted">;

/** Fire times that did not run: one row per span, so a long downtime is one row. */
export interface MissedSpan<Reason extends MissedReason = MissedReason> {
  first: Instant;
  last: Instant;
  count: number;
  reason: Reason;
}
