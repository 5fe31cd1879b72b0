import type { Pool } from "../../src/postgres/pool.ts";
import { until } from "../until.ts";

/** How many statements in the pool's database wait for a lock at present. */
export async function statementsThatWaitForALock(pool: Pool): Promise<number> {
  const { rowCount } = await pool.query(
    "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  );
  return rowCount ?? 0;
}

/** Resolves when at least so many do. */
export async function untilLockWaits(pool: Pool, statements = 1): Promise<void> {
  await until(
    `${statements} wait for a lock`,
    async () => (await statementsThatWaitForALock(pool)) >= statements,
  );
}
