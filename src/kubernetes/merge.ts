/**
 * The values of several iterators as they come, each with the index of its source. Ends when all have
 * ended; the first error of one is thrown, and the others are closed.
 */
export async function* merge<T>(
  sources: readonly AsyncGenerator<T>[],
): AsyncGenerator<{ index: number; value: T }> {
  const next = async (index: number, source: AsyncGenerator<T>) => ({
    index,
    source,
    result: await source.next(),
  });
  const pending = new Map(sources.map((source, index) => [index, next(index, source)]));
  try {
    while (pending.size > 0) {
      const { index, source, result } = await Promise.race(pending.values());
      if (result.done) {
        pending.delete(index);
        continue;
      }
      // Asked for only after it was handed out: a source counts as read up to what its reader got.
      yield { index, value: result.value };
      pending.set(index, next(index, source));
    }
  } finally {
    // A source that is waiting ends by its own signal; its last word must not become unhandled.
    for (const waiting of pending.values()) waiting.catch(() => undefined);
  }
}
