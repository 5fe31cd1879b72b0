import type { Timers } from "../domain/ports/clock.ts";

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
