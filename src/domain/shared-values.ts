import { LRUCache } from "lru-cache";

/** Longer keys are somebody's mistake or malice: `max` of them could fill the memory. */
const LONGEST_KEY = 512;

/**
 * Equal values of many jobs, kept once: 100,000 jobs usually have a few thousand schedules and destinations. Of those
 * used last, at most `max` are found again; others are made anew, as are those with long keys. The same key must stand
 * for equal values, and since they are shared, nobody may change one.
 */
export function createSharedValues<T extends string | object>(
  max: number,
): (key: string, make: () => T) => T {
  const values = new LRUCache<string, T>({ max });
  return (key, make) => {
    if (key.length > LONGEST_KEY) return make();
    const known = values.get(key);
    if (known !== undefined) return known;
    const value = make();
    values.set(key, value);
    return value;
  };
}
