import type { Queryable } from "./pool.ts";

/** Milliseconds; a synchronous standby that answers takes far less. */
const LONG = 5_000;

/** `RunQueue.commitsWait`. Sees only sessions of its own role, as all of ours are. */
export async function commitsWait(database: Queryable): Promise<boolean> {
  const { rows } = await database.query<{ waits: boolean }>(
    `select exists (
       select from pg_stat_activity
        where datname = current_database() and wait_event = 'SyncRep'
          and query_start < clock_timestamp() - ${LONG} * interval '1 millisecond') as waits`,
  );
  return rows[0]?.waits === true;
}
