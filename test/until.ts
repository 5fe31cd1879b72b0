import { setTimeout as delay } from "node:timers/promises";

/**
 * Calls `look` until it returns something other than undefined and false. If it does not in time, throws and says what
 * was waited for; `what` can be a function, which says how far it got.
 */
export async function until<T>(
  what: string | (() => string),
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = 15_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline)
      throw new Error(`not within ${withinMs} ms: ${typeof what === "string" ? what : what()}`);
    await delay(25);
  }
}
