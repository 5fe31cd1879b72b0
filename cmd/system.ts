import type { Monotonic, Random, Timers } from "../src/domain/ports/clock.ts";

/** Real time and randomness, passed to the parts, which do not use them directly. */
export const monotonic: Monotonic = () => performance.now();

export const random: Random = () => Math.random();

export const timers: Timers = {
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return {
      cancel() {
        clearTimeout(timer);
      },
    };
  },
};
