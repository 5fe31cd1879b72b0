/**
 * The values of several iterators as they come, each with the index of its source. Ends when all have ended;
 * throws the first error of one. The caller then ends the others by a signal; what they still give is dropped.
 */
export async function* merge<T>(
  sources: readonly AsyncGenerator<T>[],
): AsyncGenerator<{ index: number; value: T }> {
  // No Promise.race: the promises of quiet sources would keep every race, and its value, in memory.
  const arrived: { index: number; source: AsyncGenerator<T>; outcome: Outcome<T> }[] = [];
  let news = Promise.withResolvers<undefined>();
  const ask = async (index: number, source: AsyncGenerator<T>): Promise<void> => {
    let outcome: Outcome<T>;
    try {
      outcome = { ok: true, result: await source.next() };
    } catch (error) {
      outcome = { ok: false, error };
    }
    arrived.push({ index, source, outcome });
    news.resolve(undefined);
  };
  for (const [index, source] of sources.entries()) void ask(index, source);
  let open = sources.length;
  while (open > 0) {
    const next = arrived.shift();
    if (next === undefined) {
      await news.promise;
      news = Promise.withResolvers();
      continue;
    }
    const { index, source, outcome } = next;
    if (!outcome.ok) throw outcome.error;
    if (outcome.result.done) {
      open -= 1;
      continue;
    }
    // The next value is asked for only after this one was handed out: a source has been read up to what its reader got.
    yield { index, value: outcome.result.value };
    void ask(index, source);
  }
}

type Outcome<T> = { ok: true; result: IteratorResult<T> } | { ok: false; error: unknown };
