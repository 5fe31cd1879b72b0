import type { Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";

/** What a key answers from now on. */
export interface KeptAnswer {
  status: number;
  body: string;
}

/** Idempotency keys, by their tokens, of which an outage kept from being written what became of them. */
export interface UnsettledKeys {
  /** `unanswered`: PostgreSQL may begin it only when it has been freed already. */
  free(token: string, beginning: "begun" | "unanswered"): void;
  keep(token: string, answer: KeptAnswer): void;
  /** Resolves when nothing is left to be written, or the pool ends. */
  written(): Promise<void>;
}

/** Milliseconds between two tries. */
const AGAIN_MS = 1_000;
/** After which PostgreSQL is over with a statement without an answer, of which it carries out 10 s. */
const UNANSWERED_MS = 16_000;
/** Keys that are to be freed: those of a busy minute. */
const MOST_FREED = 50_000;
/** Answers that are to be kept: one may have 256 KiB. */
const MOST_KEPT = 200;

/** Writes it when PostgreSQL is back. Beyond the limits keys stay in flight. */
export function createUnsettledKeys(options: {
  free: (tokens: readonly string[]) => Promise<unknown>;
  keep: (token: string, answer: KeptAnswer) => Promise<unknown>;
  timers: Timers;
  /** Whether nothing can be written any more. */
  ending: () => boolean;
}): UnsettledKeys {
  const { free, keep, timers, ending } = options;
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
          await keep(token, answer);
          toKeep.delete(token);
        }
      }
      waiting = false;
      tellWritten();
    } catch (error) {
      // What is refused for another reason would be so for ever.
      if (!(error instanceof DependencyUnavailable)) toKeep.clear();
      writeLater();
    }
  }

  async function freeAll(): Promise<void> {
    const freed = [...toFree];
    if (freed.length === 0) return;
    await free(freed.map(([token]) => token));
    for (const [token] of freed) toFree.delete(token);
    const unanswered = freed.flatMap(([token, how]) => (how === "unanswered" ? token : []));
    if (unanswered.length > 0)
      timers.after(UNANSWERED_MS, () => {
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
