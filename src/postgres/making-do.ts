import type { Pool, PoolClient } from "pg";
import { sqlState } from "./sql-state.ts";

/** What a server says that lets nobody else in, and goes on with those who are in. */
const NOBODY_ELSE = new Set<string | undefined>([
  "53300", // too_many_connections
  "57P03", // cannot_connect_now: it ends when all have gone, which it is told by SIGTERM
]);
/** Milliseconds for which a pool asks for no more than it has: each refusal costs the server a process. */
const CONTENT = 1_000;

type Taken = (
  error: Error | undefined,
  client: PoolClient | undefined,
  release: (broken?: unknown) => void,
) => void;

/**
 * A server that accepts no more connections is not away: the caller waits for one that the pool has, as if the pool
 * were full; if it has none, it gets one of the lender's.
 */
export function makeDoWhenRefused(pool: Pool, lender?: Pool): void {
  const connect = pool.connect.bind(pool);
  const { max } = pool.options;
  let used = 0;
  pool.on("acquire", () => (used += 1));
  pool.on("release", () => (used -= 1));
  let growing: NodeJS.Timeout | undefined;

  function beContentWith(connections: number): void {
    pool.options.max = connections;
    growing ??= setTimeout(() => {
      growing = undefined;
      pool.options.max = max;
    }, CONTENT).unref();
  }

  function take(taken: Taken): void {
    connect((error, client, release) => {
      // Without those that are only being made: they may be refused as well.
      const own = used + pool.idleCount;
      if (!NOBODY_ELSE.has(sqlState(error))) taken(error, client, release);
      else if (own > 0) {
        beContentWith(own);
        take(taken);
      } else if (lender) lender.connect(taken);
      else taken(error, client, release);
    });
  }

  function takeOrPromise(taken: Taken): void;
  function takeOrPromise(): Promise<PoolClient>;
  function takeOrPromise(taken?: Taken): Promise<PoolClient> | void {
    if (taken) return take(taken);
    return new Promise((resolve, reject) => {
      take((error, client) => {
        if (client) resolve(client);
        else reject(error ?? new Error("no connection"));
      });
    });
  }
  pool.connect = takeOrPromise;
}
