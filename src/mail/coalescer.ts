import { pause } from "../domain/pause.ts";
import type { Timers } from "../domain/ports/clock.ts";

/** Milliseconds from the begin of one load to that of the next, of one key. */
const APART = 5;

/**
 * One running load per key and at most one waiting behind it. A caller never gets the answer of a load
 * that began before its call, so what was written before the call is seen; callers that come while a
 * load runs, or within 5 ms of its begin, share the next one.
 */
export function createCoalescer<T>(
  load: (key: string) => Promise<T>,
  timers?: Timers,
): (key: string) => Promise<T> {
  const running = new Map<string, Promise<unknown>>();
  const waiting = new Map<string, Promise<T>>();

  function start(key: string): Promise<T> {
    const work = load(key);
    // How it ends is its callers' business.
    const over = Promise.allSettled([work, timers && pause(timers, APART)]).finally(() => {
      if (running.get(key) === over) running.delete(key);
    });
    running.set(key, over);
    return work;
  }

  async function after(key: string, current: Promise<unknown>): Promise<T> {
    await current;
    waiting.delete(key);
    return start(key);
  }

  return (key) => {
    const current = running.get(key);
    if (current === undefined) return start(key);
    const next = waiting.get(key) ?? after(key, current);
    waiting.set(key, next);
    return next;
  };
}
