import type { Pool } from "../../src/postgres/pool.ts";
import { until } from "../until.ts";

/** Resolves when a session waits for a lock of the table. */
export async function untilWanted(pool: Pool, table: string): Promise<void> {
  await until(`somebody wants the table ${table}`, async () => {
    const { rowCount } = await pool.query(
      "select from pg_locks where relation = $1::regclass and not granted",
      [table],
    );
    return rowCount === 1;
  });
}
