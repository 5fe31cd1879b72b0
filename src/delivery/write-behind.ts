import { pause } from "../waiting/pause.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import { ContentRefused } from "../domain/ports/content-refused.ts";
import { DependencyUnavailable, LockHeld } from "../domain/ports/dependency-down.ts";

export interface WriteBehind<T> {
  /** `held`: somebody holds a lock on it, as far as is known. */
  add(item: T, held?: boolean): void;
  /** No more items are expected soon: what waits is written within `HURRY`. */
  hurry(): void;
  /** Items not written yet. */
  readonly pending: number;
  /** Resolves when nothing is pending any more. */
  idle(): Promise<void>;
}

/** Milliseconds. Of a few hundred items a second, each of which comes alone, one statement still takes several. */
const HURRY = 5;
/** Milliseconds between tries while nothing can be written. */
const RETRY = { first: 100, most: 2_000 };
/** Milliseconds between tries of what was put aside. */
const ASIDE = 1_000;

/**
 * Group commit: what comes while a write is under way, and within `collectMs` after it, is written together.
 * A statement costs as much as the writing of ten items, so that company is worth waiting for.
 * While they cannot be written, they are kept and written again; writes compare claim tokens, so that a
 * write whose answer got lost changes nothing the second time. After each failure, which may have been that a whole
 * batch takes longer than a statement may, the next write has half as many items, and after each success twice as many
 * again. No item must hold up the rest:
 * - one that the database refuses for its own sake (ContentRefused): the batch is halved until it stands alone, then
 *   `onRefused`, and it is gone.
 * - those on which somebody holds a lock (LockHeld), as `locked` names them: they are put aside until it is released,
 *   and so are others of the same `lockedBy`, for whom nobody waits as long once more.
 * - one that cannot be written even alone, for whatever reason: it is put aside and tried alone.
 */
export function createWriteBehind<T>(options: {
  write: (items: readonly T[]) => Promise<void>;
  locked?: (items: readonly T[]) => Promise<ReadonlySet<T>>;
  /** Items of the same one have the same lock to wait for. */
  lockedBy?: (item: T) => unknown;
  onRefused: (item: T, error: unknown) => void;
  onLocked?: (items: readonly T[]) => void;
  /** Nothing could be written; it will be tried again. */
  onOutage: (error: unknown) => void;
  timers: Timers;
  collectMs: number;
  maxBatch: number;
}): WriteBehind<T> {
  const { write, locked, lockedBy = (item) => item, onRefused, onLocked, onOutage } = options;
  const { timers, collectMs, maxBatch } = options;
  let waiting: T[] = [];
  let writing = 0;
  let size = maxBatch;
  let active = false;
  let collecting: Timer | undefined;
  let hurrying: Timer | undefined;
  /** Of the items that wait. */
  let hurried = false;
  /** And what has to be free before they are tried again: `lockedBy`; undefined when it is not a lock. */
  const aside = new Map<T, unknown>();
  let retrying: Timer | undefined;
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
      wakeWhenIdle();
      schedule();
    }
  }

  function wakeWhenIdle(): void {
    if (aside.size > 0) return;
    for (const wake of idleWaiters) wake();
    idleWaiters = [];
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
        if (error instanceof LockHeld) {
          const locks = await putLockedAside(part);
          rest = rest.filter((item) => !locks.has(item));
          if (locks.size > 0) continue;
        }
        if (!(error instanceof ContentRefused)) {
          onOutage(error);
          if (part.length === 1 && !(error instanceof DependencyUnavailable)) {
            putAside(part, () => undefined);
            rest = rest.slice(1);
          }
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

  /** Returns them: none where the lock is on something else, or nobody can tell now. */
  async function putLockedAside(items: readonly T[]): Promise<ReadonlySet<T>> {
    const locks = await lockedOf(items);
    if (locks.size === 0) return locks;
    putAside([...locks], lockedBy);
    onLocked?.([...locks]);
    return locks;
  }

  async function lockedOf(items: readonly T[]): Promise<ReadonlySet<T>> {
    if (locked === undefined || items.length === 0) return new Set();
    try {
      return await locked(items);
    } catch (error) {
      onOutage(error);
      return new Set();
    }
  }

  /** Of the items that are being written. */
  function putAside(items: readonly T[], by: (item: T) => unknown): void {
    writing -= items.length;
    for (const item of items) aside.set(item, by(item));
    retryLater();
  }

  function retryLater(): void {
    retrying ??= timers.after(ASIDE, () => {
      retryAside()
        .catch(onOutage)
        .finally(() => {
          retrying = undefined;
          if (aside.size > 0) retryLater();
          if (idleWaiters.length > 0) start();
          else schedule();
        });
    });
  }

  /** Those whose lock is gone go with the others again. */
  async function retryAside(): Promise<void> {
    const items = Array.from(aside.keys());
    const locks = await lockedOf(items.filter((item) => aside.get(item) !== undefined));
    for (const item of items) {
      if (locks.has(item)) continue;
      if (aside.get(item) !== undefined) waiting.push(item);
      else if (!(await wroteAlone(item))) continue;
      aside.delete(item);
    }
  }

  async function wroteAlone(item: T): Promise<boolean> {
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
    add: (item, held = false) => {
      const by = lockedBy(item);
      if (held || (aside.size > 0 && new Set(aside.values()).has(by))) {
        aside.set(item, by);
        retryLater();
      } else {
        waiting.push(item);
        schedule();
      }
    },
    hurry: () => {
      if (waiting.length === 0) return;
      hurried = true;
      schedule();
    },
    get pending() {
      return waiting.length + writing + aside.size;
    },
    idle: async () => {
      if (waiting.length === 0 && !active && aside.size === 0) return;
      await new Promise<void>((resolve) => {
        idleWaiters.push(resolve);
        start();
      });
    },
  };
}
