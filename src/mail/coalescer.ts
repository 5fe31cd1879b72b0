/**
 * One running load per key and at most one waiting behind it. A caller never gets the answer of a load
 * that began before its call, so what was written before the call is seen; callers that come while a
 * load runs share the next one.
 */
export function createCoalescer<T>(load: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>();
  const waiting = new Map<string, Promise<T>>();

  function start(key: string): Promise<T> {
    const work = load(key).finally(() => {
      if (running.get(key) === work) running.delete(key);
    });
    running.set(key, work);
    return work;
  }

  async function after(key: string, current: Promise<T>): Promise<T> {
    // How the one before ended is its callers' business.
    await Promise.allSettled([current]);
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
