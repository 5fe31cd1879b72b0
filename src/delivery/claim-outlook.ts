import type { Instant } from "../domain/instant.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Full } from "./held-runs.ts";
import { createWholeLooks, RARER } from "./whole-looks.ts";

/** Milliseconds before now that every claim looks through: what was written then may be committed, or unlocked, late. */
const LOOK_BACK = 2_000;
/** Milliseconds; the least of `ClaimOutlook.patience`. */
const PATIENCE = 25;

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
  /** The claim that `next` allowed was answered. Not called after a failure: then nothing counts as looked at. */
  looked(claim: Looked): void;
  /**
   * For how many milliseconds somebody with few slots stays excluded after a claim that included them: each inclusion
   * makes a claim read past their whole queue again.
   */
  readonly patience: number;
  /** Runs due at `since` or later may be waiting (null: at any time), also such as the claim under way cannot have seen. */
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
  /** Who was full when claims went by, by name, and where their runs begin. */
  const passedOver = new Map<string, number>();
  /** Monotonic: until then the rest is theirs, unless news come. */
  let onlyTheirsUntil = -Infinity;
  const wholeLooks = createWholeLooks({ least: poll / 2 });
  /** Monotonic: when all are looked at again. */
  let allAt = -Infinity;
  let askedForAll = false;
  /** Milliseconds that the last claim took which read past all of the full. */
  let readingPast = 0;

  return {
    next: (full) => {
      const names = new Set(namesOf(full));
      for (const [name, from] of passedOver) {
        if (names.has(name)) continue;
        // Only where its own runs begin: others may have had more to wait for, and longer.
        floor = Math.min(floor, from);
        passedOver.delete(name);
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
      if (askedForAll) {
        wholeLooks.took(tookMs);
        allAt = answered + wholeLooks.pause;
      }
      const names = namesOf(full);
      const passesOver = names.length > 0;
      for (const name of names)
        passedOver.set(name, Math.min(passedOver.get(name) ?? Infinity, floor));
      if (passesOver && cutShortAt === null) readingPast = tookMs;
      floor = Math.min(now - LOOK_BACK, cutShortAt ?? Infinity, heard);
      // Over when the next poll looks: a hint may have got lost.
      onlyTheirsUntil =
        passesOver && cutShortAt === null && heard === Infinity
          ? answered - tookMs + poll / 2
          : -Infinity;
    },
    get patience() {
      return Math.min(poll, Math.max(PATIENCE, readingPast * RARER));
    },
    news: (since) => {
      const from = since ?? -Infinity;
      floor = Math.min(floor, from);
      heard = Math.min(heard, from);
      onlyTheirsUntil = -Infinity;
    },
  };
}

function namesOf({ accounts, destinations }: Full): string[] {
  return [...accounts, ...destinations];
}
