import { randomUUID } from "node:crypto";
import type { Instant } from "../domain/instant.ts";
import type { Clock, Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { STATEMENT_OVER_MS } from "../domain/ports/dependency-unavailable.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import { Bell } from "../waiting/bell.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import { createClaimScan } from "./claim-scan.ts";
import type { DeliveryLimits } from "./delivery-limits.ts";
import type { ClaimExclusions, HeldRuns } from "./held-runs.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";

/** Milliseconds. */
export const CLAIM_TIMING = {
  lease: 20_000,
  poll: 1_000,
  lookahead: 2_000,
  afterError: 500,
  /** Within which PostgreSQL must begin a claim; later it claims nothing. */
  takeUp: 5_000,
  /** Less than a lease. */
  unanswered: STATEMENT_OVER_MS,
};

/** Claims as many runs as can start soon; a claim also starts those that are due, while there are slots. */
export interface Claimer {
  /** Until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** There may be new runs, due at `since` or later (null: at any time). */
  news(since: Instant | null): void;
  /** An account, a destination or a job that claims passed over is not in the way of its runs any more. */
  recovered(): void;
  /** Set while a claim under way may start runs: until it resolves, nothing else should take the slots. */
  readonly filling: Promise<void> | undefined;
  /**
   * Gives back what claims without an answer may have taken; nothing of it was sent. For shutdown, after the last
   * claim.
   */
  giveBackUnanswered(): Promise<void>;
}

export function createClaimer(options: {
  queue: Pick<RunQueue, "claim" | "unclaim">;
  clock: Clock;
  random: Random;
  timers: Timers;
  monotonic: Monotonic;
  workerId: string;
  held: HeldRuns;
  leases: Pick<LeaseKeeper, "add">;
  breakers: Pick<CircuitBreakers, "notClosed">;
  limits: DeliveryLimits;
  timing: typeof CLAIM_TIMING;
  /** So many attempts are done but not recorded that no more are to be claimed. */
  congested: () => boolean;
  /** Monotonic time when the database was last seen away. */
  lastOutage: () => number;
  /** What a claim has brought; `held` has it already. `asked`: monotonic time before the claim was sent. */
  onClaimed: (runs: readonly ClaimedRun[], asked: number, signal: AbortSignal) => void;
  onOutage: (error: unknown) => void;
}): Claimer {
  const { queue, clock, random, timers, monotonic, held, leases, breakers, limits, timing } =
    options;
  const scan = createClaimScan({ monotonic, poll: timing.poll });
  const bell = new Bell({ timers });
  /** The last claim reached its limit or passed somebody over: there may be more to claim. */
  let starved = false;
  let filling: Promise<void> | undefined;
  /** Tokens of claims without an answer, and when the claims were sent. */
  const unanswered = new Map<string, number>();
  let lastUnclaim = -Infinity;

  /**
   * Claims no more than can start soon. While there are slots for a run to any destination, the same statement starts
   * what is due. True when it is worth claiming again at once.
   */
  async function claim(signal: AbortSignal): Promise<boolean> {
    if (unanswered.size > 0) await giveBack();
    if (!clock.known || options.congested()) return false;
    const now = clock.now();
    const room = held.room(now);
    const full = held.full(now, scan.patience);
    const slots = breakers.notClosed.size > limits.notClosed ? 0 : held.startable(full);
    const limit = Math.min(limits.claimBatch, room.due, slots || Infinity);
    if (limit === 0) return false;
    const look = scan.next(full);
    if (look === undefined) return false;
    const began = monotonic();
    const token = randomUUID();
    unanswered.set(token, began);
    held.claimed(full, now);
    const claiming = queue.claim({
      worker: options.workerId,
      limit,
      // Oldest first: what is due comes before what is only prepared.
      from: look.from,
      until: room.ahead ? now + timing.lookahead : now,
      leaseMs: timing.lease,
      exceptAccounts: full.accounts,
      exceptDestinations: full.destinations,
      exceptJobs: full.jobs,
      token,
      before: now + timing.takeUp,
      start: slots > 0 ? { exceptDestinations: [...breakers.notClosed] } : undefined,
    });
    const over = Promise.withResolvers<void>();
    if (slots > 0) filling = over.promise;
    let runs: ClaimedRun[];
    try {
      runs = await claiming;
      unanswered.delete(token);
      leases.add(runs, began);
      held.add(runs);
    } finally {
      filling = undefined;
      over.resolve();
    }
    const cutShort = runs.length === limit;
    starved = cutShort || countOf(full) + full.jobs.length > 0;
    scan.answered({
      now,
      full,
      cutShortAt: cutShort ? (runs.at(-1)?.notBefore ?? null) : null,
      tookMs: monotonic() - began,
    });
    options.onClaimed(runs, began, signal);
    if (!cutShort) return false;
    // Nearly full: the rest is claimed when a slot comes free, or at the next poll.
    if (slots === 0) return limit >= limits.claimBatch / 4;
    // The next claim excludes whom this one has filled up. It is worth making at once if nobody was filled up, or if
    // without them there is room for many more.
    const nowFull = held.full(clock.now(), scan.patience);
    return countOf(nowFull) <= countOf(full) || held.startable(nowFull) > 2 * slots;
  }

  /** Repeated until each claim is surely over: the server may still be working on one whose answer nobody waits for. */
  async function giveBack(): Promise<void> {
    const now = monotonic();
    // No new claim is made until this succeeds, so that the list stays short.
    if (now - lastUnclaim < timing.poll) return;
    await queue.unclaim([...unanswered.keys()]);
    lastUnclaim = now;
    for (const [token, began] of unanswered)
      if (Math.max(began, options.lastOutage()) < now - timing.unanswered) unanswered.delete(token);
  }

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        try {
          if (await claim(signal)) continue;
          const interval = timing.poll * (0.5 + random() / 2);
          await bell.wait(starved ? Math.min(scan.patience, interval) : interval, signal);
        } catch (error) {
          options.onOutage(error);
          await bell.wait(timing.afterError, signal);
        }
      }
    },
    news: (since) => {
      scan.news(since);
      bell.ring();
    },
    recovered: () => {
      if (starved) bell.ring();
    },
    get filling() {
      return filling;
    },
    giveBackUnanswered: async () => {
      lastUnclaim = -Infinity;
      if (unanswered.size > 0) await giveBack();
    },
  };
}

/** Without the jobs, whose exclusion has nothing to do with slots. */
function countOf({ accounts, destinations }: ClaimExclusions): number {
  return accounts.length + destinations.length;
}
