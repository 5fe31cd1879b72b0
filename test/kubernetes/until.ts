import { setTimeout as delay } from "node:timers/promises";

/** Polls until `condition` is true; fails, and says what it waited for, when it never is. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  options: { within?: number; every?: number; what?: string | (() => string) } = {},
): Promise<void> {
  const within = options.within ?? 10_000;
  const deadline = performance.now() + within;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      const what = typeof options.what === "function" ? options.what() : options.what;
      throw new Error(`not within ${within} ms: ${what ?? condition.toString()}`);
    }
    await delay(options.every ?? 20);
  }
}
