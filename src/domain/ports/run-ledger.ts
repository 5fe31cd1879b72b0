import type { Cursor } from "../cursor.ts";
import type { Job } from "../job.ts";
import type { MissedSpan, NewRun, UnfinishedRun } from "../run.ts";

/** The change that one reconcile decided on for one job. Applied whole or not at all. */
export interface LedgerChange {
  job: Job;
  /** The cursor that was read; undefined when there was none. The write compares its version. */
  from: Cursor | undefined;
  to: Omit<Cursor, "version" | "jobUid">;
  create: readonly NewRun[];
  /** Unfinished runs to mark replaced (concurrencyPolicy Replace). */
  replace: readonly string[];
  missed: readonly MissedSpan[];
}

/** A job that was deleted, and what is known of it besides. */
export type GoneJob = Pick<Job, "uid"> & Partial<Pick<Job, "account" | "id" | "spec">>;

/**
 * The scheduling side of PostgreSQL: cursors, and the creation and cancelling of runs. By the leader, and by the gateway
 * for what REST asks for.
 */
export interface RunLedger {
  cursors(jobUids: readonly string[]): Promise<Map<string, Cursor>>;
  unfinished(jobUids: readonly string[]): Promise<Map<string, UnfinishedRun[]>>;
  /**
   * One transaction for all changes: compare-and-set each cursor, store the revision, insert runs and
   * missed spans, drop queued runs that belong to an older generation or a job no longer startable
   * (recorded as missed: superseded, paused, deleted), mark replaced ones; then NOTIFY the workers.
   * Returns the uids that lost the compare-and-set, and of one-times that were put back to a time at which they
   * had run, and so have not missed it: reconcile them again.
   *
   * What the scheduler relies on, per change and in this order:
   * 1. Runs are dropped before `create` is inserted, so a fire time can be created again for a new
   *    generation in the same change. An identity that exists already, also as a run that started or
   *    finished meanwhile, is not inserted a second time (no error): a worker may start a prepared run
   *    between the scheduler's decision to drop and create it anew and this transaction. A cron that is set back to
   *    before such a run's time gets that for its position.
   * 2. A dropped scheduled run is recorded as missed only when its scheduledAt ≤ `to.position`, its identity
   *    is not in `create`, and it is not the fire time of a one-time that is in `missed`; any other leaves no
   *    trace, because the scheduler decides it again.
   * 3. A new cursor has version 1, which rises with every write that a decision depends on, also a worker's
   *    (completed, failed, halted): the scheduler keeps cursors in memory and learns of such a write by the conflict.
   * Manual runs are never dropped for suspension.
   *
   * Throws ContentRefused, and nothing is applied, when PostgreSQL cannot hold what a change says; and LockHeld after
   * waiting for somebody who holds a lock on one of the jobs' cursors or runs, as `cancel` does.
   */
  apply(changes: readonly LedgerChange[]): Promise<{ conflicts: string[]; created: number }>;
  /** Uids of those for whose cursor, or one of whose unfinished runs, `apply` would have to wait at this moment. */
  locked(jobUids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Uids whose cursor is not deleted but that are not in `known`: deletions nobody saw. */
  orphans(known: ReadonlySet<string>): Promise<string[]>;
  /** Uids under which the id may still run: a job that is there, and those whose deletion broke off. */
  undeleted(account: string, jobId: string): Promise<string[]>;
  /**
   * Marks jobs deleted and cancels their unstarted runs (recorded). Idempotent. Of one `account` one call is under
   * way at a time, and those that are made meanwhile go together after it. Of a job that no leader has seen yet, what is
   * known of it stays as its trace, with the time of a one-time that was due.
   */
  cancel(jobs: readonly GoneJob[], account?: string): Promise<void>;
  /**
   * A run asked for by REST; the same key again is no second run. False: no cursor, one that has not got to the
   * job's generation or account yet, or deleted.
   */
  runNow(job: Job, key: string): Promise<boolean>;
  /**
   * Takes the halt that a 410 put on the job off its cursor and tells the leader (LedgerNews). Nothing
   * happens where there is none. Throws `VersionConflict` when others keep writing the cursor.
   */
  liftHalt(job: Job): Promise<void>;
}

/**
 * What the leader did not write itself, told soon after its commit. Hints: some get lost, some are
 * repeated, and listeners get `undefined` when they may have missed some (after each reconnect).
 */
export interface LedgerNews {
  /** Cursors that a worker (completed, failed, halted) or a REST request (resume) wrote. */
  onCursors(listener: (jobUids: readonly string[] | undefined) => void): () => void;
  /** Jobs of which attempts were recorded. */
  onClosed(listener: (jobUids: readonly string[] | undefined) => void): () => void;
}
