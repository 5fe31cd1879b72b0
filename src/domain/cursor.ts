import type { Instant } from "./instant.ts";

/** How long cursors and revisions are kept after their job, and the key of a manual run after its request. */
export const REMEMBERED_DAYS = 7;

/** How a one-time job stands (docs/decisions/0023); cron jobs stay `armed`. */
export type OnceState = "armed" | "fired" | "completed" | "failed" | "missed";

/**
 * The job's shadow in PostgreSQL and the only source of truth for what has been decided:
 * every fire time at or before `position` has become a run or a missed span. Advanced by
 * compare-and-set on `version`, so two leaders can never create the same run twice.
 */
export interface Cursor {
  jobUid: string;
  /** The job's account when it was last decided on; null: its namespace was bound to none. */
  account: string | null;
  /**
   * 1 when new. Rises with every write that a decision depends on, a worker's (completed, failed, halted) included. A
   * write that only records the last execution does not raise it.
   */
  version: number;
  position: Instant;
  /** Hash of schedule, zone and suspension; when it changes the cursor moves to now. */
  scheduleHash: string;
  /** The revision that runs start from. */
  generation: number;
  /** `revisionOf` the job that was decided on; null when an older release, which knew no revisions, wrote last. */
  revision: string | null;
  /** False: paused, halted, invalid, without account or deleted: no scheduled run may start. */
  startable: boolean;
  once: OnceState;
  /** The generation that a 410 Gone halted; null when none is. */
  haltedGeneration: number | null;
  /** When a 410, of any generation, stopped the schedule; null once the scheduler has taken that up. */
  haltedAt: Instant | null;
  /** The last `run-now` annotation value that was dealt with: it became a run, or was spent without one. */
  lastRunNow: string | null;
  deleted: boolean;
}
