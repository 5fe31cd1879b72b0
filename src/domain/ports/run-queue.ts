import type { NextStep } from "../after-attempt.ts";
import type { Instant } from "../instant.ts";
import type { ClaimedRun, Execution } from "../run.ts";

/** A claimed run without what it delivers, for records of which thousands may wait for PostgreSQL. */
export type ClaimedRecord = Claim & Pick<ClaimedRun, "account" | "jobUid" | "jobId" | "notBefore">;

/** How an attempt ends for its run. */
export type Closing = {
  run: ClaimedRecord;
  /** The attempt's record. A run that an open circuit held up until its deadline gets one too. */
  execution: Pick<
    Execution,
    "status" | "httpStatus" | "durationMs" | "errorMessage" | "executedAt"
  >;
} & NextStep;

/** A claim of a run, with the proof that it is this one. */
export type Claim = Pick<ClaimedRun, "id" | "claimToken">;

/** The delivering side of PostgreSQL. All writes compare the claim token; all times are PostgreSQL's. */
export interface RunQueue {
  /**
   * Claims up to `limit` unfinished, unclaimed runs with `from` ≤ notBefore ≤ `until`, oldest first
   * (FOR UPDATE SKIP LOCKED), for `leaseMs`. Runs of excepted accounts, destinations and jobs are passed over.
   */
  claim(request: {
    worker: string;
    limit: number;
    /** Null or omitted: among all that are due. */
    from?: Instant | null;
    until: Instant;
    leaseMs: number;
    exceptAccounts?: readonly string[];
    exceptDestinations?: readonly string[];
    exceptJobs?: readonly string[];
    /** Proof of the claim, for `unclaim`; made up when omitted. */
    token?: string;
    /**
     * If PostgreSQL begins the claim later than this, it rejects and claims nothing, because nobody may wait for
     * its answer any more. It does not answer with an empty list: the caller would conclude that nothing waits.
     */
    before?: Instant;
    /**
     * Also starts runs, as `start` does and in the same commit: webhooks that are due, except those to these
     * destinations. Runs that it started have `started`; the others are claimed only. The caller must have a slot
     * for each run, whomever it calls.
     */
    start?: { exceptDestinations: readonly string[] };
  }): Promise<ClaimedRun[]>;
  /**
   * Gives back everything, started or not, that these claims took. For claims whose answers never came, so that nothing
   * was sent. Runs that somebody has locked are left out.
   */
  unclaim(tokens: readonly string[]): Promise<void>;
  /**
   * Commits `started` for runs that may start: claim and lease valid, revision current, job startable and undeleted
   * (manual runs ignore suspension), not replaced, and, for a prepared run, its starting deadline not passed.
   * Returns the ids that may be sent; the others are gone (recorded as missed, or to be decided again) or belong to
   * somebody else.
   */
  start(runs: readonly ClaimedRun[]): Promise<Set<string>>;
  /**
   * Records the execution and ends or requeues the run, in one transaction. Returns the ids that were closed; the
   * others are over, deleted or taken over. Throws LockHeld after waiting in vain for a lock on one of the runs or
   * their jobs' cursors, and ContentRefused for an outcome that cannot be stored; nothing is recorded then.
   */
  close(closings: readonly Closing[]): Promise<Set<string>>;
  /**
   * Ids of those runs for which `close` or `release` would have to wait for longer than for a statement of ours.
   * `briefly`: or for no longer.
   */
  locked(
    runs: readonly ClaimedRecord[],
    options?: { briefly: boolean },
  ): Promise<ReadonlySet<string>>;
  /**
   * Gives back claims of which nothing was sent: unstarted ones, and started ones that an open circuit held up. The
   * runs may start again at `notBefore`, but never before their own; when omitted, that stays. Throws LockHeld.
   */
  release(runs: readonly ClaimedRecord[], notBefore?: Instant): Promise<void>;
  /**
   * Extends the leases of these claims and no others: the lease of a claim whose answer never reached its worker
   * must run out. Returns the claims still held, by run id; the lease of one that somebody has `locked` was not
   * extended. Has a connection of its own.
   */
  renew(
    claims: readonly Claim[],
    leaseMs: number,
  ): Promise<ReadonlyMap<string, "renewed" | "locked">>;
  /** Which of these runs to abort, and why: a newer run has replaced it, or its job or account was deleted. */
  unwanted(runIds: readonly string[]): Promise<ReadonlyMap<string, "replaced" | "deleted">>;
  /**
   * Whether a commit has been waiting for long, for a synchronous standby. What it has written shows when the standby
   * answers, however long ago whoever asked for it gave up.
   */
  commitsWait(): Promise<boolean>;
  /**
   * For leases that ran out: unstarted claims return to the queue, started ones are closed as "interrupted: outcome
   * unknown", or retried when the policy allows. Returns how many of each. `except`: started runs of the caller,
   * which has their outcome or will have it, whatever became of their leases. `asOf`: only leases that were over at
   * this moment count, because PostgreSQL's clock may have stepped ahead since the caller measured it.
   */
  reap(request?: {
    except: readonly string[];
    asOf?: Instant;
  }): Promise<{ requeued: number; interrupted: number }>;
  /**
   * Calls the listener when new runs may be waiting, with notBefore of `since` or later (null: of any time). A hint
   * that may get lost: poll as well.
   */
  onWake(listener: (since: Instant | null) => void): () => void;
  /** For the metrics. */
  depth(): Promise<{ queued: number; started: number; oldestDueMs: number | null }>;
}
