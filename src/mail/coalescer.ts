import { beginStatement, type Pace } from "../waiting/pace.ts";

/**
 * One running load per key and at most one waiting behind it. A caller never gets the answer of a load
 * that began before its call, so what was written before the call is seen; callers that come while a
 * load runs share the next one, which keeps the pace.
 */
export function createCoalescer<T>(
  load: (key: string) => Promise<T>,
  pace?: Pace,
): (key: string) => Promise<T> {
  /** Keys whose load runs, with the callers of the next one. */
  const running = new Map<string, PromiseWithResolvers<T> | null>();

  function start(key: string): Promise<T> {
    running.set(key, null);
    const apart = pace && beginStatement(pace);
    const work = load(key);
    void goOn(key, work, apart);
    return work;
  }

  async function goOn(key: string, work: Promise<T>, apart?: () => Promise<void>): Promise<void> {
    // How it ends is its callers' business.
    await Promise.allSettled([work]);
    if (running.get(key)) await apart?.();
    const waiting = running.get(key);
    if (waiting) waiting.resolve(start(key));
    else running.delete(key);
  }

  return (key) => {
    const waiting = running.get(key);
    if (waiting === undefined) return start(key);
    if (waiting) return waiting.promise;
    const next = Promise.withResolvers<T>();
    running.set(key, next);
    return next.promise;
  };
}
