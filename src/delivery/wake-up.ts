import type { Timers } from "../domain/ports/clock.ts";

export interface WakeUp {
  /** Ends the wait under way, or the next one at once. */
  ring(): void;
  /** Resolves at the ring, or after so many milliseconds. */
  wait(ms: number): Promise<void>;
}

/** What a loop sleeps on. One waiter. A ring between two waits is not lost. */
export function createWakeUp(timers: Timers): WakeUp {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring: () => {
      rung = true;
      wake?.();
    },
    wait: async (ms) => {
      if (!rung)
        await new Promise<void>((resolve) => {
          const timer = timers.after(Math.max(0, ms), resolve);
          wake = () => {
            timer.cancel();
            resolve();
          };
        });
      wake = undefined;
      rung = false;
    },
  };
}
