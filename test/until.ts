import { setTimeout as delay } from "node:timers/promises";

/**
 * Looks again until there is an answer, which undefined and false are not; fails when it does not come,
 * saying what was waited for. A function for `what` can say how far it got.
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
