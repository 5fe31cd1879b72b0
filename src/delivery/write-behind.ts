import { pause } from "../waiting/pause.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";

export interface WriteBehind<T> {
  add(item: T): void;
  /** No more items are expected soon: what waits is written within `HURRY`. */
  hurry(): void;
  /** Items not written yet. */
  readonly pending: number;
  /** Resolves when nothing is pending any more. */
  idle(): Promise<void>;
}

/** Milliseconds. Of a few hundred items a second, each of which comes alone, one statement still takes several. */
const HURRY = 5;
/** Milliseconds between tries while the database is away. */
const RETRY = { first: 100, most: 2_000 };

/**
 * Group commit: what comes while a write is under way, and within `collectMs` after it, is written together.
 * A statement costs as much as the writing of ten items, so that company is worth waiting for.
 * While the database is away they are kept and written again; writes compare claim tokens, so that a
 * write whose answer got lost changes nothing the second time. An item that the database refuses for
 * its own sake must not hold up the rest: the batch is halved until it stands alone, then `onRefused`.
 * After an outage, which may have been that a whole batch takes longer than a statement may, the next write
 * has half as many items, and after each success twice as many again.
 */
export function createWriteBehind<T>(options: {
  write: (items: readonly T[]) => Promise<void>;
  onRefused: (item: T, error: unknown) => void;
  onOutage: (error: unknown) => void;
  timers: Timers;
  collectMs: number;
  maxBatch: number;
}): WriteBehind<T> {
  const { write, onRefused, onOutage, timers, collectMs, maxBatch } = options;
  let waiting: T[] = [];
  let writing = 0;
  let size = maxBatch;
  let active = false;
  let collecting: Timer | undefined;
  let hurrying: Timer | undefined;
  /** Of the items that wait. */
  let hurried = false;
  let idleWaiters: (() => void)[] = [];

  function schedule(): void {
    if (active || waiting.length === 0) return;
    if (waiting.length >= maxBatch) {
      start();
    } else {
      collecting ??= timers.after(collectMs, start);
      if (hurried) hurrying ??= timers.after(HURRY, start);
    }
  }

  function start(): void {
    collecting?.cancel();
    hurrying?.cancel();
    collecting = hurrying = undefined;
    if (active) return;
    active = true;
    flush().catch((error: unknown) => {
      onOutage(error);
    });
  }

  async function flush(): Promise<void> {
    try {
      do {
        hurried = false;
        const batch = waiting.slice(0, maxBatch);
        waiting = waiting.slice(maxBatch);
        writing = batch.length;
        await writeAll(batch);
      } while (waiting.length >= maxBatch || (waiting.length > 0 && idleWaiters.length > 0));
    } finally {
      writing = 0;
      active = false;
      for (const wake of idleWaiters) wake();
      idleWaiters = [];
      schedule();
    }
  }

  async function writeAll(batch: readonly T[]): Promise<void> {
    let rest = batch;
    let delay = RETRY.first;
    while (rest.length > 0) {
      const part = rest.slice(0, size);
      try {
        await write(part);
        size = Math.min(size * 2, maxBatch);
      } catch (error) {
        if (error instanceof DependencyUnavailable) {
          onOutage(error);
          size = Math.ceil(part.length / 2);
          await pause(delay, timers);
          delay = Math.min(delay * 2, RETRY.most);
          continue;
        }
        await apart(part, error);
      }
      rest = rest.slice(part.length);
      delay = RETRY.first;
    }
  }

  async function apart(batch: readonly T[], error: unknown): Promise<void> {
    const [only, ...others] = batch;
    if (only === undefined) return;
    if (others.length === 0) {
      onRefused(only, error);
      return;
    }
    const half = Math.ceil(batch.length / 2);
    await writeAll(batch.slice(0, half));
    await writeAll(batch.slice(half));
  }

  return {
    add: (item) => {
      waiting.push(item);
      schedule();
    },
    hurry: () => {
      if (waiting.length === 0) return;
      hurried = true;
      schedule();
    },
    get pending() {
      return waiting.length + writing;
    },
    idle: async () => {
      if (waiting.length === 0 && !active) return;
      await new Promise<void>((resolve) => {
        idleWaiters.push(resolve);
        start();
      });
    },
  };
}
