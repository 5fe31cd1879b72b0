/** The pause after a look, as a multiple of the time that it took. */
export const INTERVAL_FACTOR = 20;
/** The longest pause, in milliseconds. */
const LONGEST = 30_000;

/**
 * How long to pause between looks at the whole queue, so that they take at most a twentieth of the time. The quicker of
 * the last two counts: one that was slow because PostgreSQL stood still did not cost that much.
 */
export interface FullScanInterval {
  took(ms: number): void;
  /** Milliseconds. */
  readonly pause: number;
}

export function createFullScanInterval({ least }: { least: number }): FullScanInterval {
  let last = 0;
  let cost = 0;
  return {
    took: (ms) => {
      cost = Math.min(last, ms);
      last = ms;
    },
    get pause() {
      return Math.max(least, Math.min(LONGEST, cost * INTERVAL_FACTOR));
    },
  };
}
