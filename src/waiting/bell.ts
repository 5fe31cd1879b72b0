import type { Timers } from "../domain/ports/clock.ts";

/** What a loop sleeps on: wakes one waiter. A ring between two waits is kept, so none is lost. */
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
