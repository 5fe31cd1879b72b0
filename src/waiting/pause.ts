import type { Timers } from "./ports/clock.ts";

/**
 * Milliseconds from the start of one statement that requests share to that of the next, when somebody
 * waits for it (docs/decisions/0010).
 */
export const STATEMENTS_APART = 5;

/** Resolves after `ms`, or as soon as the signal aborts: the caller looks at the signal. */
export async function pause(ms: number, timers: Timers, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      timer.cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = timers.after(ms, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}
