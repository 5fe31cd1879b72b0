import type { Instant } from "../instant.ts";
import type { ClaimedRun } from "../run.ts";

/** How an attempt ends for its run. */
export type Closing = {
  run: ClaimedRun;
  /** The attempt's record. A run that its circuit held up until the deadline has one too. */
  execution: {
    status: "success" | "failed";
    httpStatus: number;
    durationMs: number;
    errorMessage: string | null;
    executedAt: Instant;
  };
} & (
  | { next: "finished" }
  /** 410: finish and halt the generation. */
  | { next: "halted" }
  | { next: "retry"; notBefore: Instant }
);

/** Which run, and the proof that it is this claim of it. */
export type Claim = Pick<ClaimedRun, "id" | "claimToken">;

/** The delivering side of PostgreSQL. All writes compare the claim token; all times are PostgreSQL's. */
export interface RunQueue {
  /**
   * Claims up to `limit` unfinished, unclaimed runs with `from` ≤ notBefore ≤ `until`, oldest first
   * (FOR UPDATE SKIP LOCKED), for `leaseMs`. Accounts and destinations at their limit are passed over.
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
    /** Proof of the claim, for `unclaim`; made up when omitted. */
    token?: string;
    /**
     * Rejects, and nothing is claimed, if PostgreSQL takes the claim up later than this: its answer would find nobody. It
     * has not looked for anything then, and who took that for an empty queue would look no more where runs wait.
     */
    before?: Instant;
    /**
     * Starts what it claims, as `start` does and in the same commit: webhooks that are due, except those to these
     * destinations. `started` says of which it was true; of the others nothing but the claim is. Whoever asks for it
     * has a slot for each, whomever it calls.
     */
    start?: { exceptDestinations: readonly string[] };
  }): Promise<ClaimedRun[]>;
  /**
   * Gives back what claims have taken, started or not, whose answers did not come: nothing of it was sent. What somebody
   * has locked is left out.
   */
  unclaim(tokens: readonly string[]): Promise<void>;
  /**
   * Commits `started` for those that may start: claim and lease valid, revision current, job startable
   * and undeleted (manual runs ignore suspension), not replaced, and when it was prepared, its starting
   * deadline not passed. Returns the ids that may be sent;
   * the others are gone, recorded as missed or to be decided again, or belong to somebody else.
   */
  start(runs: readonly ClaimedRun[]): Promise<Set<string>>;
  /**
   * Execution and run in one transaction. Returns the ids that were closed; the rest are over, deleted or taken over.
   * Throws LockHeld after waiting for somebody who holds a lock on one of the runs or their jobs' cursors, and
   * ContentRefused for an outcome that cannot be held; nothing is recorded then.
   */
  close(closings: readonly Closing[]): Promise<Set<string>>;
  /** Ids of those for whom `close` or `release` would have to wait at this moment. */
  locked(runs: readonly ClaimedRun[]): Promise<ReadonlySet<string>>;
  /**
   * Gives claims back of which nothing was sent: unstarted ones, and started ones that an open circuit
   * held up. Startable again from `notBefore`, when omitted as before; never before the run's own time. Throws LockHeld.
   */
  release(runs: readonly ClaimedRun[], notBefore?: Instant): Promise<void>;
  /**
   * Extends the leases of these claims, and of no others: one whose answer got lost on the way to its
   * worker must run out. Returns those still held, by run id; of one that is locked by somebody at this moment
   * the lease is as long as it was. Own connection.
   */
  renew(
    claims: readonly Claim[],
    leaseMs: number,
  ): Promise<ReadonlyMap<string, "renewed" | "locked">>;
  /** Those among these to abort, and why: a newer run has replaced them, or their job or account was deleted. */
  unwanted(runIds: readonly string[]): Promise<ReadonlyMap<string, "replaced" | "deleted">>;
  /**
   * After a lease ran out: unstarted claims return to the queue, started ones are closed as
   * "interrupted: outcome unknown" or retried when the policy allows. Returns how many of each. `except` are started runs
   * of which the caller has the outcome, or will have it, whatever became of their leases. No lease is over that was not
   * over at `asOf`, should PostgreSQL's clock have stepped ahead since the caller measured it.
   */
  reap(request?: {
    except: readonly string[];
    asOf?: Instant;
  }): Promise<{ requeued: number; interrupted: number }>;
  /**
   * Wakes the listener when runs may be waiting, of `since` or later (by notBefore; null: of any time). A hint: pollers
   * must not rely on it.
   */
  onWake(listener: (since: Instant | null) => void): () => void;
  /** For the metrics. */
  depth(): Promise<{ queued: number; started: number; oldestDueMs: number | null }>;
}
