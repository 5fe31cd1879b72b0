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

/** Settles as the work does. The work gets a signal that aborts after `ms`, or when `signal` does. */
export async function withTimeout<T>(
  limit: { ms: number; timers: Timers; signal?: AbortSignal | undefined; reason?: Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { ms, timers, signal, reason } = limit;
  const late = new AbortController();
  const timer = timers.after(ms, () => {
    late.abort(reason);
  });
  try {
    return await work(signal ? AbortSignal.any([signal, late.signal]) : late.signal);
  } finally {
    timer.cancel();
  }
}
