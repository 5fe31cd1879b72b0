/** How many times as long as it took the next look stays away. */
export const RARER = 20;
/** Milliseconds; at most. */
const LONGEST = 30_000;

/**
 * How long nobody looks at the whole queue after somebody has, so that such looks take a twentieth of the time. Of the
 * last two the quicker one counts: one that took long because PostgreSQL stood still has not cost that much.
 */
export interface WholeLooks {
  took(ms: number): void;
  /** Milliseconds. */
  readonly pause: number;
}

export function createWholeLooks({ least }: { least: number }): WholeLooks {
  let last = 0;
  let cost = 0;
  return {
    took: (ms) => {
      cost = Math.min(last, ms);
      last = ms;
    },
    get pause() {
      return Math.max(least, Math.min(LONGEST, cost * RARER));
    },
  };
}
