import type { Instant } from "../domain/instant.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Full } from "./held-runs.ts";

/** Milliseconds before now that every claim looks through: what was written then may be committed, or unlocked, late. */
const LOOK_BACK = 2_000;
/** How many times as long as it took the next look at all of them stays away. */
const RARER = 20;

/** A claim that was answered. */
export interface Looked {
  /** Of the moment it was asked. */
  now: Instant;
  full: Full;
  /** The last run's notBefore when there may be more behind it; null when there was nothing else to claim. */
  cutShortAt: Instant | null;
  tookMs: number;
}

/**
 * Where the next claim has to look. What is over stays in the order of the queue until PostgreSQL can remove it, which
 * no vacuum may while a transaction that has seen it is open (a backup, a report), and what full destinations have
 * queued stays as well: a claim that reads past all of it each time takes longer and longer. So it begins where the
 * one before has found nothing more, and at all of them again only now and then: news may get lost.
 */
export interface ClaimOutlook {
  /** Undefined: nobody is to be found, and there is nothing to ask. `from` null: among all that are queued. */
  next(full: Full): { from: Instant | null } | undefined;
  /** What `next` said has been asked. Without it, as after a failure, nothing is known to be claimed. */
  looked(claim: Looked): void;
  /** Runs of this moment or later may be waiting; null: of any. Those that no claim under way may have seen, too. */
  news(since: Instant | null): void;
}

export function createClaimOutlook(options: {
  monotonic: Monotonic;
  /** Milliseconds within which a run whose news got lost is found, if a look at all of them is quick. */
  poll: number;
}): ClaimOutlook {
  const { monotonic, poll } = options;
  /** Before it there is nothing to claim, but for whom `passedOver` names. */
  let floor = -Infinity;
  /** The earliest of the news since the claim under way was asked. */
  let heard = Infinity;
  /** Who was full when claims went by, and where their runs begin. */
  let passedOver: { whose: Full; from: number } | undefined;
  /** Monotonic: until then the rest is theirs, unless news come. */
  let onlyTheirsUntil = -Infinity;
  /** Monotonic: when all are looked at again. */
  let allAt = -Infinity;
  let askedForAll = false;

  return {
    next: (full) => {
      if (passedOver && !covers(full, passedOver.whose)) {
        floor = Math.min(floor, passedOver.from);
        passedOver = undefined;
        onlyTheirsUntil = -Infinity;
      }
      const now = monotonic();
      if (now < onlyTheirsUntil) return undefined;
      heard = Infinity;
      askedForAll = now >= allAt;
      return { from: askedForAll || floor === -Infinity ? null : floor };
    },
    looked: ({ now, full, cutShortAt, tookMs }) => {
      const answered = monotonic();
      if (askedForAll) allAt = answered + Math.max(poll / 2, tookMs * RARER);
      const passesOver = full.accounts.length > 0 || full.destinations.length > 0;
      if (passesOver)
        passedOver = { whose: full, from: Math.min(passedOver?.from ?? Infinity, floor) };
      floor = Math.min(now - LOOK_BACK, cutShortAt ?? Infinity, heard);
      // Over when the next poll looks: a hint may have got lost.
      onlyTheirsUntil =
        passesOver && cutShortAt === null && heard === Infinity
          ? answered - tookMs + poll / 2
          : -Infinity;
    },
    news: (since) => {
      const from = since ?? -Infinity;
      floor = Math.min(floor, from);
      heard = Math.min(heard, from);
      onlyTheirsUntil = -Infinity;
    },
  };
}

/** Whether `full` leaves nobody in whom `others` had passed over. */
function covers(full: Full, others: Full): boolean {
  const accounts = new Set(full.accounts);
  const destinations = new Set(full.destinations);
  return (
    others.accounts.every((account) => accounts.has(account)) &&
    others.destinations.every((destination) => destinations.has(destination))
  );
}
