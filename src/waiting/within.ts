import type { Timers } from "../domain/ports/clock.ts";

/** Resolves when the work is done, or after `ms`. */
export async function within(ms: number, work: Promise<unknown>, timers: Timers): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = timers.after(ms, late.resolve);
  await Promise.race([work, late.promise]);
  timer.cancel();
}
