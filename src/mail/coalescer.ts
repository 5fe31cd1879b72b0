import { beginStatement, type Pace } from "../waiting/pace.ts";

/**
 * One load per key at a time, and at most one waiting behind it. A caller never gets the answer of a load that
 * began before its call, so that it sees everything written before. Callers that come while a load runs share the
 * next one, which keeps the pace.
 */
export function createCoalescer<T>(
  load: (key: string) => Promise<T>,
  pace: Pace,
): (key: string) => Promise<T> {
  /** Keys whose load runs, with the promise of the next load if somebody waits for one. */
  const running = new Map<string, PromiseWithResolvers<T> | null>();

  function start(key: string): Promise<T> {
    running.set(key, null);
    const untilNext = beginStatement(pace);
    const work = load(key);
    void goOn(key, work, untilNext);
    return work;
  }

  async function goOn(
    key: string,
    work: Promise<T>,
    untilNext: () => Promise<void>,
  ): Promise<void> {
    // Its own callers handle a rejection.
    await Promise.allSettled([work]);
    if (running.get(key)) await untilNext();
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
