import type { Timers } from "../domain/ports/clock.ts";

/**
 * A loop sleeps on it: a ring wakes the one waiter. A ring between two waits ends the next one, so that none is
 * lost.
 */
export class Bell {
  #rung = false;
  #wake: (() => void) | undefined;
  readonly #timers: Timers;

  constructor(options: { timers: Timers }) {
    this.#timers = options.timers;
  }

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Resolves at the next ring, after `ms`, or when the signal aborts. */
  async wait(ms: number, signal?: AbortSignal): Promise<void> {
    if (!this.#rung && !signal?.aborted)
      await new Promise<void>((resolve) => {
        const done = (): void => {
          timer.cancel();
          signal?.removeEventListener("abort", done);
          this.#wake = undefined;
          resolve();
        };
        const timer = this.#timers.after(Math.max(0, ms), done);
        this.#wake = done;
        signal?.addEventListener("abort", done);
      });
    this.#rung = false;
  }
}
