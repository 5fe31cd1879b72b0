import type { Monotonic, Timers } from "../domain/ports/clock.ts";
import { pause } from "./pause.ts";

/** Pauses between statements that requests share (docs/decisions/0010). */
export interface Pace {
  timers: Timers;
  monotonic: Monotonic;
}

/** A statement is under way for at most this part of the time, as far as `STATEMENTS_APART` allows. */
const SHARE = 1 / 3;
/**
 * The longest time from the start of one statement to that of the next, in milliseconds, when somebody waits for
 * it.
 */
const STATEMENTS_APART = 5;

/**
 * Call it when a statement begins, and the function that it returns when it is over: that resolves when the next
 * may begin.
 */
export function beginStatement({ timers, monotonic }: Pace): () => Promise<void> {
  const began = monotonic();
  return async () => {
    const took = monotonic() - began;
    const left = Math.min(took / SHARE, STATEMENTS_APART) - took;
    if (left > 0) await pause(left, timers);
  };
}
