/** Does `work` `count` times, `width` at a time. Returns how often per second. */
export async function concurrently(
  { count, width }: { count: number; width: number },
  work: (index: number) => Promise<unknown>,
): Promise<number> {
  let next = 0;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: width }, async () => {
      while (next < count) await work(next++);
    }),
  );
  return count / ((performance.now() - begun) / 1_000);
}
