import { pause } from "../waiting/pause.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import { ContentRefused } from "../domain/ports/content-refused.ts";
import { DependencyUnavailable, LockHeld } from "../domain/ports/dependency-unavailable.ts";

export interface WriteBehind<T> {
  /** `held`: somebody is known to hold a lock on it, so that it is put aside at once. */
  add(item: T, held?: boolean): void;
  /** No more items are expected soon: what waits is written within `FLUSH_SOON`. */
  flushSoon(): void;
  /** Items not written yet. */
  readonly pending: number;
  /** Those of them that wait for somebody's lock. */
  readonly lockedOut: number;
  /** Resolves when nothing is pending any more. */
  idle(): Promise<void>;
}

/** Milliseconds. At a few hundred single items a second, one statement still writes several. */
const FLUSH_SOON = 5;
/** Milliseconds between tries while nothing can be written. */
const RETRY = { first: 100, most: 2_000 };
/** Milliseconds between tries of items that were put aside. */
const ASIDE = 1_000;

/**
 * Group commit: items that come while a write is under way, and within `collectMs` after it, are written together.
 * A statement costs as much as the writing of ten items, so that it is worth waiting for more. While items cannot
 * be written, they are kept and written again; writes compare claim tokens, so that a write whose answer got lost
 * changes nothing the second time. After each failure the next write has half as many items, because the whole
 * batch may take longer than a statement may; after each success it has twice as many. No item must hold up the
 * rest:
 * - One that the database refuses for its content (ContentRefused): the batch is halved until that item stands
 *   alone; then `onRefused` hears of it, and it is dropped.
 * - Those on which somebody holds a lock (LockHeld), as `locked` names them: they are put aside until it is
 *   released, and so are later ones of the same `lockedBy`. As long as any wait for a lock, a write is preceded by the
 *   question which others are locked by now: whoever holds one lock may hold many, and they are waited for only once.
 * - One that cannot be written even alone, for any other reason: it is put aside and tried alone.
 */
export function createWriteBehind<T>(options: {
  write: (items: readonly T[]) => Promise<void>;
  /** Those among the items on which somebody holds a lock for longer than a statement of ours. `briefly`: or no longer. */
  locked?: (items: readonly T[], options: { briefly: boolean }) => Promise<ReadonlySet<T>>;
  /** Items for which this is the same wait for the same lock. Default: each for its own. */
  lockedBy?: (item: T) => unknown;
  onRefused: (item: T, error: unknown) => void;
  onLocked?: (items: readonly T[]) => void;
  /** The item begins to wait for a lock, or does not wait for it any more. */
  onLockedOut?: (item: T, waits: boolean) => void;
  /** Nothing could be written; it will be tried again. */
  onOutage: (error: unknown) => void;
  timers: Timers;
  collectMs: number;
  maxBatch: number;
}): WriteBehind<T> {
  const { write, locked, lockedBy = (item) => item, onRefused, onLocked, onLockedOut } = options;
  const { onOutage, timers, collectMs, maxBatch } = options;
  let waiting: T[] = [];
  let writing = 0;
  let size = maxBatch;
  let active = false;
  let collecting: Timer | undefined;
  let flushing: Timer | undefined;
  /** `flushSoon` was called for the items that wait. */
  let flushWanted = false;
  /** Items put aside until somebody's lock is released. */
  const lockedOut = new Set<T>();
  /** How many of them wait for the lock of each `lockedBy`. */
  const locks = new Map<unknown, number>();
  /** Items put aside because even alone they could not be written. */
  const faulty = new Set<T>();
  let retrying: Timer | undefined;
  let idleWaiters: (() => void)[] = [];

  function schedule(): void {
    if (active || waiting.length === 0) return;
    if (waiting.length >= maxBatch) {
      start();
    } else {
      collecting ??= timers.after(collectMs, start);
      if (flushWanted) flushing ??= timers.after(FLUSH_SOON, start);
    }
  }

  function start(): void {
    collecting?.cancel();
    flushing?.cancel();
    collecting = flushing = undefined;
    if (active) return;
    active = true;
    flush().catch((error: unknown) => {
      onOutage(error);
    });
  }

  async function flush(): Promise<void> {
    try {
      do {
        flushWanted = false;
        const batch = waiting.slice(0, maxBatch);
        waiting = waiting.slice(maxBatch);
        writing = batch.length;
        await writeAll(batch);
      } while (waiting.length > 0 && idleWaiters.length > 0);
    } finally {
      writing = 0;
      active = false;
      wakeWhenIdle();
      schedule();
    }
  }

  function wakeWhenIdle(): void {
    if (asideCount() > 0) return;
    for (const wake of idleWaiters) wake();
    idleWaiters = [];
  }

  async function writeAll(batch: readonly T[]): Promise<void> {
    let rest = batch;
    let delay = RETRY.first;
    while (rest.length > 0) {
      const part = rest.slice(0, size);
      if (lockedOut.size > 0 && (await lockOut(part))) {
        rest = rest.filter((item) => !lockedOut.has(item));
        continue;
      }
      try {
        await write(part);
        size = Math.min(size * 2, maxBatch);
      } catch (error) {
        if (error instanceof LockHeld && (await lockOut(part))) {
          rest = rest.filter((item) => !lockedOut.has(item));
          continue;
        }
        if (!(error instanceof ContentRefused)) {
          onOutage(error);
          if (part.length === 1 && !(error instanceof DependencyUnavailable)) {
            writing -= 1;
            for (const item of part) faulty.add(item);
            retryLater();
            rest = rest.slice(1);
          }
          size = Math.ceil(part.length / 2);
          await pause(delay, timers);
          delay = Math.min(delay * 2, RETRY.most);
          continue;
        }
        await writeHalves(part, error);
      }
      rest = rest.slice(part.length);
      delay = RETRY.first;
    }
  }

  /**
   * Puts aside those of the items being written that are locked. False: none of them is, or it cannot be asked for now.
   */
  async function lockOut(items: readonly T[]): Promise<boolean> {
    const lockedItems = await lockedOf(items, { briefly: false });
    if (lockedItems.size === 0) return false;
    writing -= lockedItems.size;
    for (const item of lockedItems) waitForLock(item);
    onLocked?.([...lockedItems]);
    return true;
  }

  async function lockedOf(
    items: readonly T[],
    options: { briefly: boolean },
  ): Promise<ReadonlySet<T>> {
    if (locked === undefined || items.length === 0) return new Set();
    try {
      return await locked(items, options);
    } catch (error) {
      onOutage(error);
      return new Set();
    }
  }

  function waitForLock(item: T): void {
    lockedOut.add(item);
    countLock(item, 1);
    retryLater();
  }

  function countLock(item: T, change: 1 | -1): void {
    const by = lockedBy(item);
    const count = (locks.get(by) ?? 0) + change;
    if (count > 0) locks.set(by, count);
    else locks.delete(by);
    onLockedOut?.(item, change > 0);
  }

  function asideCount(): number {
    return lockedOut.size + faulty.size;
  }

  function retryLater(): void {
    retrying ??= timers.after(ASIDE, () => {
      retryAside()
        .catch(onOutage)
        .finally(() => {
          retrying = undefined;
          if (asideCount() > 0) retryLater();
          if (idleWaiters.length > 0) start();
          else schedule();
        });
    });
  }

  /** Items whose lock is released wait with the others again; those that waited for no lock are tried alone. */
  async function retryAside(): Promise<void> {
    const items = [...lockedOut];
    const stillLocked = await lockedOf(items, { briefly: true });
    for (const item of items) {
      if (stillLocked.has(item)) continue;
      lockedOut.delete(item);
      countLock(item, -1);
      waiting.push(item);
    }
    for (const item of Array.from(faulty)) if (await settledAlone(item)) faulty.delete(item);
  }

  /** True: it was written, or refused for good. */
  async function settledAlone(item: T): Promise<boolean> {
    try {
      await write([item]);
    } catch (error) {
      if (!(error instanceof ContentRefused)) {
        onOutage(error);
        return false;
      }
      onRefused(item, error);
    }
    return true;
  }

  /** After `batch` was refused for the content of one of its items. */
  async function writeHalves(batch: readonly T[], error: unknown): Promise<void> {
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
    add: (item, held = false) => {
      if (held || locks.has(lockedBy(item))) {
        waitForLock(item);
      } else {
        waiting.push(item);
        schedule();
      }
    },
    flushSoon: () => {
      if (waiting.length === 0) return;
      flushWanted = true;
      schedule();
    },
    get pending() {
      return waiting.length + writing + asideCount();
    },
    get lockedOut() {
      return lockedOut.size;
    },
    idle: async () => {
      if (waiting.length === 0 && !active && asideCount() === 0) return;
      await new Promise<void>((resolve) => {
        idleWaiters.push(resolve);
        start();
      });
    },
  };
}
