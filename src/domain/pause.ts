import type { Timers } from "./ports/clock.ts";

/** Resolves after so many milliseconds. */
export async function pause(timers: Timers, ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    timers.after(ms, resolve);
  });
}
