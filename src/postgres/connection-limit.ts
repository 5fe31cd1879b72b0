import type { Pool, PoolClient } from "pg";
import { sqlState } from "./sql-state.ts";

/** Errors of a server that accepts no new connections, and goes on serving those that it has. */
const NO_MORE_CONNECTIONS = new Set<string | undefined>([
  "53300", // too_many_connections
  "57P03", // cannot_connect_now: after a SIGTERM it ends when all clients have gone
]);
/** Milliseconds for which a pool asks for no more connections than it has: each refusal costs the server a process. */
const CAPPED = 1_000;

type Taken = (
  error: Error | undefined,
  client: PoolClient | undefined,
  release: (broken?: unknown) => void,
) => void;

/**
 * A server that accepts no more connections is not away: the caller waits for a connection that the pool has, as if the
 * pool were full; if the pool has none, the caller gets one of the lender's.
 */
export function tolerateConnectionLimit(pool: Pool, lender?: Pool): void {
  const connect = pool.connect.bind(pool);
  const { max } = pool.options;
  let used = 0;
  pool.on("acquire", () => (used += 1));
  pool.on("release", () => (used -= 1));
  let growing: NodeJS.Timeout | undefined;

  function capAt(connections: number): void {
    pool.options.max = connections;
    growing ??= setTimeout(() => {
      growing = undefined;
      pool.options.max = max;
    }, CAPPED).unref();
  }

  function take(taken: Taken): void {
    connect((error, client, release) => {
      // Without connections that are still being made: they may be refused as well.
      const own = used + pool.idleCount;
      if (!NO_MORE_CONNECTIONS.has(sqlState(error))) taken(error, client, release);
      else if (own > 0) {
        capAt(own);
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
