import type { Instant } from "../domain/instant.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { ClaimExclusions } from "./held-runs.ts";
import { createFullScanInterval, INTERVAL_FACTOR } from "./full-scan-interval.ts";

/** Milliseconds before now that every claim reads again: runs written then may be committed, or unlocked, late. */
const LOOK_BACK = 2_000;
/** Milliseconds; the least of `ClaimScan.patience`. */
const PATIENCE = 25;

/** A claim that was answered. */
export interface AnsweredClaim {
  /** When it was sent. */
  now: Instant;
  /** Whom it excluded. */
  full: ClaimExclusions;
  /** When it reached its limit: the last run's notBefore, behind which there may be more. Null: it found everything. */
  cutShortAt: Instant | null;
  tookMs: number;
}

/**
 * From where in the queue the next claim reads. Rows of finished runs stay in the index until a vacuum may remove them,
 * which a long transaction (a backup, a report) prevents, and runs of full destinations stay there too: a claim that
 * reads past all of them takes longer and longer. So a claim begins where the one before found nothing more, and reads
 * the whole queue only now and then, because news may get lost.
 */
export interface ClaimScan {
  /** Undefined: only runs of `full` wait, so that no claim is needed. `from` null: the whole queue. */
  next(full: ClaimExclusions): { from: Instant | null } | undefined;
  /** The claim that `next` allowed was answered. Not called when it failed: then nothing counts as read. */
  answered(claim: AnsweredClaim): void;
  /**
   * Milliseconds for which an account or destination with few slots stays excluded after a claim that included it: each
   * such claim makes a later one read past its whole queue again.
   */
  readonly patience: number;
  /**
   * New runs due at `since` or later may be waiting (null: at any time); the claim under way may not have seen
   * them.
   */
  news(since: Instant | null): void;
}

export function createClaimScan(options: {
  monotonic: Monotonic;
  /** Milliseconds within which a run whose news got lost is found, if reading the whole queue is quick. */
  poll: number;
}): ClaimScan {
  const { monotonic, poll } = options;
  /** Nothing before this moment is left to claim, except runs of those in `passedOver`. */
  let floor = -Infinity;
  /** The earliest moment that news named since the claim under way was sent. */
  let heard = Infinity;
  /** Accounts, destinations and jobs that claims passed over, and from which moment their runs may wait. */
  const passedOver = new Map<string, number>();
  /** Monotonic: until then only runs of those passed over wait, unless news come. */
  let onlyTheirsUntil = -Infinity;
  const fullScans = createFullScanInterval({ least: poll / 2 });
  /** Monotonic: when the whole queue is read again. */
  let fullScanAt = -Infinity;
  let isFullScan = false;
  /** Milliseconds that the last claim took that read past everything of those who are full. */
  let readingPast = 0;

  return {
    next: (full) => {
      const names = new Set(namesOf(full));
      for (const [name, from] of passedOver) {
        if (names.has(name)) continue;
        // Back only to where its own runs begin; the floor of another one may lie further back.
        floor = Math.min(floor, from);
        passedOver.delete(name);
        onlyTheirsUntil = -Infinity;
      }
      const now = monotonic();
      if (now < onlyTheirsUntil) return undefined;
      heard = Infinity;
      isFullScan = now >= fullScanAt;
      return { from: isFullScan || floor === -Infinity ? null : floor };
    },
    answered: ({ now, full, cutShortAt, tookMs }) => {
      const answered = monotonic();
      if (isFullScan) {
        fullScans.took(tookMs);
        fullScanAt = answered + fullScans.pause;
      }
      const names = namesOf(full);
      const passesOver = names.length > 0;
      for (const name of names)
        passedOver.set(name, Math.min(passedOver.get(name) ?? Infinity, floor));
      if (passesOver && cutShortAt === null) readingPast = tookMs;
      floor = Math.min(now - LOOK_BACK, cutShortAt ?? Infinity, heard);
      // Ends before the next poll, which must look again: news may have got lost.
      onlyTheirsUntil =
        passesOver && cutShortAt === null && heard === Infinity
          ? answered - tookMs + poll / 2
          : -Infinity;
    },
    get patience() {
      return Math.min(poll, Math.max(PATIENCE, readingPast * INTERVAL_FACTOR));
    },
    news: (since) => {
      const from = since ?? -Infinity;
      floor = Math.min(floor, from);
      heard = Math.min(heard, from);
      onlyTheirsUntil = -Infinity;
    },
  };
}

function namesOf({ accounts, destinations, jobs }: ClaimExclusions): string[] {
  return [...accounts, ...destinations, ...jobs];
}
