import type { LightSignal } from "./light-abort.ts";

/**
 * Settles as the work does, or rejects with the signal's reason as soon as that aborts: for work that cannot be
 * cancelled, or does not notice while it waits. Its outcome is dropped then.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(abortReason(signal));
    };
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", abort);
    });
  });
}

/** Resolves when the signal aborts. */
export function aborted(signal: LightSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", { handleEvent: resolve }, { once: true });
  });
}

/** The signal's reason, made an error if it is none. */
export function abortReason(signal: Pick<LightSignal, "reason">): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new Error("aborted", { cause: reason });
}
