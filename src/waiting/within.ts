import type { Timers } from "../domain/ports/clock.ts";

/** Resolves when the work is done, or after `ms`; rejects as the work does. */
export async function within(ms: number, work: Promise<unknown>, timers: Timers): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = timers.after(ms, late.resolve);
  try {
    await Promise.race([work, late.promise]);
  } finally {
    timer.cancel();
  }
}
