import type { Cursor } from "../cursor.ts";
import type { JobOutline } from "../job-outline.ts";
import type { Job, JobSpec } from "../job.ts";
import type { DecidedReason, MissedSpan, NewRun, UnfinishedRun } from "../run.ts";

/**
 * Jobs whose waiting runs are dropped together. While a circuit is open, each may have thousands: a statement has not
 * the time for those of many.
 */
export const DROPPING_JOBS_AT_ONCE = 20;

/** The change that one reconcile decided on for one job. Applied whole or not at all. */
export interface LedgerChange {
  job: JobOutline;
  /** The job's whole spec, which is stored when `to` has another revision than `from`. Undefined: not needed. */
  spec: JobSpec | undefined;
  /** The cursor that was read; undefined when there was none. The write compares its version. */
  from: Cursor | undefined;
  to: Omit<Cursor, "version" | "jobUid">;
  create: readonly NewRun[];
  /** Unfinished runs to mark replaced (concurrencyPolicy Replace). */
  replace: readonly string[];
  missed: readonly MissedSpan<DecidedReason>[];
}

/** A job that was deleted, with what else is known of it. */
export type GoneJob = Pick<Job, "uid"> & Partial<Pick<Job, "account" | "id" | "spec">>;

/**
 * The scheduling side of PostgreSQL: cursors, and the creation and cancelling of runs. Used by the leader, and by the
 * gateway for REST requests.
 */
export interface RunLedger {
  cursors(jobUids: readonly string[]): Promise<Map<string, Cursor>>;
  /**
   * The unfinished scheduled runs of each job, of which there is one a minute at most, oldest fire time first. No decision
   * depends on those asked for by hand, of which millions may wait behind an open circuit.
   */
  unfinished(jobUids: readonly string[]): Promise<Map<string, UnfinishedRun[]>>;
  /**
   * One transaction for all changes: compare-and-set each cursor, store the revision, insert runs and missed spans,
   * drop queued runs that belong to an older generation or a job no longer startable (recorded as missed:
   * superseded, paused, deleted), mark replaced ones; then NOTIFY the workers. Returns as `conflicts`, to be
   * reconciled again, the uids that lost the compare-and-set, and those of one-time jobs that the change declared
   * missed although they had run at that time before (their time was changed and put back).
   *
   * What the scheduler relies on, per change and in this order:
   * 1. Runs are dropped before `create` is inserted, so a fire time can be created again for a new generation in
   *    the same change. An identity that exists already, also as a run that started or finished meanwhile, is not
   *    inserted a second time (no error): between the scheduler's decision to drop a prepared run and create it
   *    anew, and this transaction, a worker may start it. The cursor of a cron job that the change sets back to
   *    before such a run's time gets that time as its position.
   * 2. A dropped scheduled run is recorded as missed only when its scheduledAt ≤ `to.position`, its identity is not
   *    in `create`, and it is not the fire time of a one-time job that is in `missed`; any other leaves no trace,
   *    because the scheduler decides it again.
   * 3. A new cursor has version 1, which rises with every write that a decision depends on, also a worker's
   *    (completed, failed, halted): the scheduler keeps cursors in memory and learns of such a write by the
   *    conflict.
   * Manual runs are never dropped for suspension.
   *
   * No more than `DROPPING_JOBS_AT_ONCE` of the changes should drop runs (`dropsRuns`).
   *
   * Throws ContentRefused, and nothing is applied, when PostgreSQL cannot hold what a change says. Throws LockHeld,
   * as `cancelSome` does, after waiting in vain for a lock on one of the jobs' cursors or runs.
   */
  apply(changes: readonly LedgerChange[]): Promise<{ conflicts: string[]; created: number }>;
  /**
   * Those of the uids for whose cursor, or for one of whose unfinished runs, `apply` would have to wait for longer than
   * for a statement of ours. `briefly`: or for no longer.
   */
  locked(jobUids: readonly string[], options?: { briefly: boolean }): Promise<ReadonlySet<string>>;
  /** Uids whose cursor is not deleted but that are not in `known`: deletions that nobody saw. */
  orphans(known: ReadonlySet<string>): Promise<string[]>;
  /** Uids under which the id may still run: that of the job, and those of earlier ones whose deletion broke off. */
  undeleted(account: string, jobId: string): Promise<string[]>;
  /**
   * Marks jobs deleted and cancels their unstarted runs (recorded). Idempotent. One transaction is under way for an
   * account at a time, and calls made meanwhile go together in the next one. A job that no leader has seen yet leaves
   * a trace of what is known of it, with the time of a one-time job that was due.
   */
  cancel(jobs: readonly GoneJob[], account: string): Promise<void>;
  /**
   * The same for the leader, which has other work: cancels only some of the runs when there are very many. False: there
   * may be more. None of them starts, since the jobs are marked.
   */
  cancelSome(jobUids: readonly string[]): Promise<boolean>;
  /**
   * Creates a run that REST asks for; the same key creates no second one. False: the cursor is missing, deleted, or
   * not at the job's generation and account, because it lags behind, or the job was changed since it was read.
   */
  runNow(job: Job, key: string): Promise<boolean>;
  /**
   * Removes the halt that a 410 put on the job's cursor, and tells the leader (LedgerNews). Does nothing without a
   * halt. Throws `VersionConflict` when others keep writing the cursor.
   */
  liftHalt(job: Job): Promise<void>;
}

/**
 * What others than the leader wrote, told soon after the commit. Hints: some get lost, some are
 * repeated, and listeners get `undefined` when they may have missed some (after each reconnect).
 */
export interface LedgerNews {
  /** Cursors that a worker (completed, failed, halted) or a REST request (resume) wrote. */
  onCursors(listener: (jobUids: readonly string[] | undefined) => void): () => void;
  /** Jobs for which attempts were recorded. */
  onClosed(listener: (jobUids: readonly string[] | undefined) => void): () => void;
}
