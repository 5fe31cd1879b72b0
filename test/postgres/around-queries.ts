import type { Pool } from "../../src/postgres/pool.ts";

interface Result {
  rows: object[];
}

/**
 * The pool, with `around` in place of each statement, which it carries out with `ask`. `given` is what `query` was given:
 * a text and its values, or a configuration. Not for statements of the pool's single clients, and the pool itself stays
 * as it is.
 */
export function aroundQueries(
  pool: Pool,
  around: (ask: () => Promise<Result>, given: readonly unknown[]) => Promise<Result>,
): Pool {
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<Result>;
  return Object.assign(Object.create(pool) as Pool, {
    query: (...given: unknown[]) => around(() => query(...given), given),
  });
}
