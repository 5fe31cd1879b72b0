import type { Random, Timers } from "../domain/ports/clock.ts";

const FIRST_MS = 100;
const LAST_MS = 5_000;

/** The delay before the n-th retry in a row: doubles from 0.1 s to 5 s, half of it jitter. */
export function backoffMs(failures: number, random: Random): number {
  const ceiling = Math.min(LAST_MS, FIRST_MS * 2 ** Math.min(failures, 10));
  return ceiling * (0.5 + random() / 2);
}

/** Resolves after `ms`, or at once when the signal aborts. */
export async function pause(timers: Timers, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = timers.after(ms, done);
    signal.addEventListener("abort", done);
  });
}
