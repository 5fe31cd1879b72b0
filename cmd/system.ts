import type { Monotonic, Random, Timers } from "../src/domain/ports/clock.ts";

/** Time and chance of the real world, handed to the parts that may not reach for them. */
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
