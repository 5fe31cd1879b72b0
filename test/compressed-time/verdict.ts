import type { Instant } from "../../src/domain/instant.ts";
import type { Arrival } from "../faults/evidence.ts";
import type {
  Decided,
  LastCursor,
  RecordedExecution,
  RecordedSpan,
  JobRecord,
} from "./evidence.ts";

export type ViolationKind =
  | "lost"
  | "lost-by-hand"
  | "early"
  | "two-runs"
  | "two-accounts"
  | "too-many-attempts"
  | "repeated-attempt"
  | "unrecorded-delivery"
  | "success-without-delivery"
  | "wrong-span"
  | "wrong-end"
  | "overlapping"
  | "sent-after-deletion"
  | "sent-after-takeover"
  | "stuck"
  | "crash";

export interface Violation {
  kind: ViolationKind;
  /** Undefined if it is about no job in particular. */
  job: JobRecord | undefined;
  /** The fire time, or the moment that it is about. */
  at: Instant;
  detail: string;
}

export interface Verdict {
  violations: Violation[];
  /** Fire times that had to be accounted for. */
  fireTimes: number;
  /** Fire times within a pause or a halt that were not recorded, and need not be. */
  excused: number;
}

/** One job, and all evidence about it. */
export interface Case {
  job: JobRecord;
  arrivals: Arrival[];
  executions: RecordedExecution[];
  spans: RecordedSpan[];
  decided: Decided[];
  cursor: LastCursor | undefined;
}

export type Report = (kind: ViolationKind, at: Instant, detail: string) => void;
