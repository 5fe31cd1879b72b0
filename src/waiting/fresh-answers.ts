import { LRUCache } from "lru-cache";
import type { Monotonic } from "../domain/ports/clock.ts";

/**
 * What `ask` says of a key, asked for once within `freshMs` (milliseconds) however many want to know: of the `max` keys
 * used last. A failure is told to those who wait for it, and not kept.
 */
export function createFreshAnswers<T>(options: {
  ask: (key: string) => Promise<T>;
  freshMs: number;
  max: number;
  monotonic: Monotonic;
}): (key: string) => Promise<T> {
  const { ask, freshMs, max, monotonic } = options;
  // `perf` keeps the cache on the clock that was passed in.
  const kept = { max, ttl: freshMs, ttlResolution: 0, perf: { now: monotonic } };
  const cache = new LRUCache<string, Promise<T>>(kept);
  return (key) => {
    const known = cache.get(key);
    if (known !== undefined) return known;
    const asked = ask(key);
    cache.set(key, asked);
    asked.catch(() => {
      if (cache.peek(key) === asked) cache.delete(key);
    });
    return asked;
  };
}
