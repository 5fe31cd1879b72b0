/** Asks again until the answer is there; fails, saying what was waited for, when it does not come. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  withinMs = 15_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 25);
    });
  }
}
