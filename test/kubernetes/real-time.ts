import type { Monotonic, Random, Timers } from "../../src/domain/ports/clock.ts";

/** The clock, timers and randomness that programs pass in; tests of real servers need real ones. */
export const realTime: { monotonic: Monotonic; timers: Timers; random: Random } = {
  monotonic: () => performance.now(),
  random: () => Math.random(),
  timers: {
    after(ms, callback) {
      const timer = setTimeout(callback, ms);
      return { cancel: () => clearTimeout(timer) };
    },
  },
};
