import type { Queryable } from "./pool.ts";

/** Behind DATABASE_URL somebody else gets our connection between two of our statements. */
export class SessionsShared extends Error {
  override name = "SessionsShared";
}

/**
 * What is prepared, listened to, locked or set in a session would be another session's: outcomes would not be recorded.
 * Two connections that are both open have one server process only where a pooler lends it out for each transaction,
 * mostly the one that was used last. A pooler that is busy may give two all the same: then this finds nothing.
 */
export async function assertOwnSessions(one: Queryable, other: Queryable): Promise<void> {
  for (let tries = 0; tries < TRIES; tries += 1)
    if ((await serverProcess(one)) === (await serverProcess(other)))
      throw new SessionsShared(
        "DATABASE_URL leads to a pooler that lends a connection for one transaction at a time: Carillon needs sessions (in PgBouncer pool_mode = session)",
      );
}

const TRIES = 3;

async function serverProcess(database: Queryable): Promise<number | undefined> {
  const { rows } = await database.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid;
}
