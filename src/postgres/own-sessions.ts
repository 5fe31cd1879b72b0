import { transaction, type Pool } from "./pool.ts";

/** Behind DATABASE_URL somebody else gets our connection between two of our statements. */
export class SessionsShared extends Error {
  override name = "SessionsShared";
}

/**
 * What is prepared, listened to, locked or set in a session would be another session's: outcomes would not be recorded.
 * A connection of ours that changes its server process, or has one with another connection, has no session of its own:
 * a pooler lends it one for each transaction, mostly the one that was used last, and where it is busy any other. Ask it
 * of pools that set something in each session: some poolers lend those sessions to nobody else from then on.
 */
export async function assertOwnSessions(pools: readonly Pool[]): Promise<void> {
  const processes = new Map<unknown, number | undefined>();
  for (let turn = 0; turn < TURNS; turn += 1)
    for (const pool of pools) {
      const { connection, pid } = await look(pool);
      for (const [other, its] of processes)
        if ((other === connection) !== (its === pid))
          throw new SessionsShared(
            "DATABASE_URL leads to a pooler that lends a connection for one transaction at a time: Carillon needs sessions (in PgBouncer pool_mode = session)",
          );
      processes.set(connection, pid);
    }
}

const TURNS = 5;

function look(pool: Pool): Promise<{ connection: unknown; pid: number | undefined }> {
  return transaction(pool, async (connection) => {
    const { rows } = await connection.query<{ pid: number }>("select pg_backend_pid() as pid");
    return { connection, pid: rows[0]?.pid };
  });
}
