import type { Timers } from "../domain/ports/clock.ts";
import {
  DependencyUnavailable,
  STATEMENT_OVER_MS,
} from "../domain/ports/dependency-unavailable.ts";

/** The answer that requests with the key get from now on. */
export interface KeptAnswer {
  status: number;
  body: string;
}

/** Idempotency keys, by their tokens, whose outcome could not be written because of an outage. */
export interface PendingKeyWrites {
  /**
   * The key is free again. `unanswered`: the statement that takes the key had no answer, and PostgreSQL may carry
   * it out after the key was freed, so that it is freed once more.
   */
  free(token: string, beginning: "begun" | "unanswered"): void;
  keep(token: string, answer: KeptAnswer): void;
  /** Resolves when nothing is left to be written, or the pool ends. */
  written(): Promise<void>;
}

/** Milliseconds between two tries. */
const AGAIN_MS = 1_000;
/** Most keys that wait to be freed: those of a busy minute. */
const MOST_FREED = 50_000;
/** Most answers that wait to be kept: one may have 256 KiB. */
const MOST_KEPT = 200;

/**
 * Writes the outcomes when PostgreSQL is back. Keys beyond the limits stay in flight, and those whose answer is refused.
 */
export function createPendingKeyWrites(options: {
  free: (tokens: readonly string[]) => Promise<unknown>;
  keep: (token: string, answer: KeptAnswer) => Promise<unknown>;
  timers: Timers;
  /** Hears why something could not be written, unless that was an outage. */
  report: (error: unknown) => void;
  /** True: the pool ends, so that nothing can be written any more. */
  ending: () => boolean;
}): PendingKeyWrites {
  const { free, keep, timers, report, ending } = options;
  const toFree = new Map<string, "begun" | "unanswered">();
  const toKeep = new Map<string, KeptAnswer>();
  let waiting = false;
  let whenWritten: (() => void)[] = [];

  function freeLater(token: string, beginning: "begun" | "unanswered"): void {
    if (toFree.size < MOST_FREED) toFree.set(token, beginning);
    if (!waiting) writeLater();
  }

  function writeLater(): void {
    waiting = !ending();
    if (waiting) timers.after(AGAIN_MS, () => void write());
    else tellWritten();
  }

  function tellWritten(): void {
    for (const tell of whenWritten) tell();
    whenWritten = [];
  }

  async function write(): Promise<void> {
    try {
      // More may come while the last is written.
      while (toFree.size + toKeep.size > 0) {
        await freeAll();
        for (const [token, answer] of toKeep) {
          await keep(token, answer).catch(reportRefusal);
          toKeep.delete(token);
        }
      }
      waiting = false;
      tellWritten();
    } catch (error) {
      if (!(error instanceof DependencyUnavailable)) report(error);
      writeLater();
    }
  }

  /** An answer that is refused now would be refused again and again. */
  function reportRefusal(error: unknown): void {
    if (error instanceof DependencyUnavailable) throw error;
    report(error);
  }

  async function freeAll(): Promise<void> {
    const freed = [...toFree];
    if (freed.length === 0) return;
    await free(freed.map(([token]) => token));
    for (const [token] of freed) toFree.delete(token);
    const unanswered = freed.flatMap(([token, how]) => (how === "unanswered" ? token : []));
    if (unanswered.length > 0)
      timers.after(STATEMENT_OVER_MS, () => {
        for (const token of unanswered) freeLater(token, "begun");
      });
  }

  return {
    free: freeLater,
    keep: (token, answer) => {
      if (toKeep.size < MOST_KEPT) toKeep.set(token, answer);
      if (!waiting) writeLater();
    },
    written: async () => {
      if (waiting) await new Promise<void>((resolve) => whenWritten.push(resolve));
    },
  };
}
