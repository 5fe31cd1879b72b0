/** What was asked of the system, what the receiver saw, and what the system recorded. */
import type { OnceState } from "../../src/domain/cursor.ts";
import type { Instant } from "../../src/domain/instant.ts";
import type { ConcurrencyPolicy, Schedule } from "../../src/domain/job.ts";
import type { RunTrigger } from "../../src/domain/run.ts";
import type { Arrival } from "../faults/evidence.ts";

/**
 * What is done to a job: `edited` without a change of its schedule; `paused` and resumed; `gone`: its receiver answers
 * 410 at times, and the halt is lifted; `quiet`: nothing but runs by hand; `mixed`: from cron to one-time and back;
 * `once`: one-times that are moved, also to a time that they had before, and of which some call a receiver that answers
 * 410 at times; `deleted` at some moment.
 */
export type JobKind = "edited" | "paused" | "gone" | "quiet" | "mixed" | "once" | "deleted";

/** One request about a job. */
export interface Step {
  what: "create" | "edit" | "pause" | "resume" | "move" | "lift" | "run by hand" | "delete";
  /** When it was asked for. */
  at: Instant;
  /** When it was answered; null if it failed or was refused. */
  answered: Instant | null;
  /** The job's generation after it. */
  generation: number;
  /** The new schedule, if it changes that. */
  schedule?: Schedule;
}

/** A job, with all requests about it. */
export interface JobRecord {
  uid: string;
  id: string;
  kind: JobKind;
  createdAt: Instant;
  /** The last schedule. */
  schedule: Schedule;
  generation: number;
  /** As created; only `quiet` and `deleted` jobs are sure to keep it. */
  concurrencyPolicy: ConcurrencyPolicy;
  maxRetries: number;
  steps: readonly Step[];
}

/** One job's part of one `RunLedger.apply`, as its caller knows it. */
export interface Decided {
  jobUid: string;
  member: string;
  from: Instant;
  until: Instant;
  /** `unknown`: the call failed, but the change may have been committed all the same. */
  outcome: "won" | "lost" | "unknown";
  generation: number;
  position: Instant;
  wasStartable: boolean | undefined;
  startable: boolean;
  once: OnceState;
  created: readonly { trigger: RunTrigger; scheduledAt: Instant }[];
  missed: readonly { first: Instant; last: Instant; reason: string }[];
}

export interface RecordedExecution {
  jobUid: string;
  runId: string;
  trigger: RunTrigger;
  scheduledAt: Instant;
  attempt: number;
  status: "success" | "failed";
  httpStatus: number;
  errorMessage: string | null;
  executedAt: Instant;
  recordedAt: Instant;
}

export interface RecordedSpan {
  jobUid: string;
  first: Instant;
  last: Instant;
  count: number;
  reason: string;
  recordedAt: Instant;
}

export interface LastCursor {
  jobUid: string;
  generation: number;
  position: Instant;
  once: OnceState;
  deleted: boolean;
}

export interface UnfinishedRun {
  jobUid: string;
  runId: string;
  scheduledAt: Instant;
}

export interface Evidence {
  jobs: readonly JobRecord[];
  arrivals: readonly Arrival[];
  decided: readonly Decided[];
  executions: readonly RecordedExecution[];
  missed: readonly RecordedSpan[];
  cursors: readonly LastCursor[];
  /** Still there after the system had time to settle. */
  unfinished: readonly UnfinishedRun[];
  /** Errors with which controllers or workers ended that had not been killed. */
  crashes: readonly string[];
  /** How often each fault was done. */
  faults: Readonly<Record<string, number>>;
}
