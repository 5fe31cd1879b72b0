import { LRUCache } from "lru-cache";
import type { Monotonic } from "../domain/ports/clock.ts";

/**
 * Caches the answers of `ask` for `ttlMs` (milliseconds), for the `max` keys used last; callers that ask at the same
 * time share one question. A failure rejects for those who wait for it, and is not kept.
 */
export function createCachedLookup<T>(options: {
  ask: (key: string) => Promise<T>;
  ttlMs: number;
  max: number;
  monotonic: Monotonic;
}): (key: string) => Promise<T> {
  const { ask, ttlMs, max, monotonic } = options;
  // `perf` keeps the cache on the clock that was passed in.
  const kept = { max, ttl: ttlMs, ttlResolution: 0, perf: { now: monotonic } };
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
