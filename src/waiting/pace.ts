import type { Monotonic, Timers } from "../domain/ports/clock.ts";
import { pause } from "./pause.ts";

/** What keeps statements apart that requests share (docs/decisions/0010). */
export interface Pace {
  timers: Timers;
  monotonic: Monotonic;
}

/** At most this part of the time is a statement under way, as far as `STATEMENTS_APART` allows. */
const SHARE = 1 / 3;
/** Milliseconds from the start of one statement to that of the next, at most, when somebody waits for it. */
const STATEMENTS_APART = 5;

/** To be called when a statement begins, and the answer when it is over: resolves when the next one may begin. */
export function beginStatement({ timers, monotonic }: Pace): () => Promise<void> {
  const began = monotonic();
  return async () => {
    const took = monotonic() - began;
    const left = Math.min(took / SHARE, STATEMENTS_APART) - took;
    if (left > 0) await pause(left, timers);
  };
}
