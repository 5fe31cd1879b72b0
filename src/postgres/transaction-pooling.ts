import { transaction, type Pool } from "./pool.ts";

/** DATABASE_URL leads to a pooler that gives our session to somebody else between two of our transactions. */
export class TransactionPooling extends Error {
  override name = "TransactionPooling";
}

/**
 * Throws TransactionPooling when our connections have no sessions of their own: prepared statements, LISTEN, locks and
 * settings would end up in the sessions of others, and outcomes would not be recorded. A connection has no session
 * of its own if its server process changes, or is the same as that of another connection: a pooler lends it a
 * session for each transaction, mostly the one that was used last, or any other when that is busy. Only for pools
 * that set something in each session: once that has happened, some poolers lend the session to nobody else.
 */
export async function assertNoTransactionPooling(pools: readonly Pool[]): Promise<void> {
  const processes = new Map<unknown, number | undefined>();
  for (let round = 0; round < ROUNDS; round += 1)
    for (const pool of pools) {
      const { connection, pid } = await look(pool);
      for (const [other, its] of processes)
        if ((other === connection) !== (its === pid))
          throw new TransactionPooling(
            "DATABASE_URL leads to a pooler that lends a connection for one transaction at a time: Carillon needs sessions (in PgBouncer pool_mode = session)",
          );
      processes.set(connection, pid);
    }
}

const ROUNDS = 5;

function look(pool: Pool): Promise<{ connection: unknown; pid: number | undefined }> {
  return transaction(pool, async (connection) => {
    const { rows } = await connection.query<{ pid: number }>("select pg_backend_pid() as pid");
    return { connection, pid: rows[0]?.pid };
  });
}
