/**
 * The values of several iterators as they come, each with the index of its source. Ends when all have
 * ended; the first error of one is thrown. The others then end by a signal of their own: what they say last
 * goes to a list that nobody reads any more.
 */
export async function* merge<T>(
  sources: readonly AsyncGenerator<T>[],
): AsyncGenerator<{ index: number; value: T }> {
  // No Promise.race: each would stay with the promises of the quiet sources, and keep the value that it had.
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
    // Asked for only after it was handed out: a source counts as read up to what its reader got.
    yield { index, value: outcome.result.value };
    void ask(index, source);
  }
}

type Outcome<T> = { ok: true; result: IteratorResult<T> } | { ok: false; error: unknown };
