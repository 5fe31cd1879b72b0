import { deleteOldEmailLog } from "./email-log-retention.ts";
import type { Pool } from "./pool.ts";

const BATCH = 5_000;

/** Accounts whose 30 days after deletion are over. */
export async function purgeableAccounts({ pool }: { pool: Pool }): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    "select id from accounts where deleted_at <= now() - interval '30 days' order by deleted_at",
  );
  return rows.map((row) => row.id);
}

/**
 * Removes what this half of the schema holds of a deleted account, the account itself last. Purge its
 * runs and executions before. Interrupted, it goes on where it was when called again.
 */
export async function purgeAccount({
  pool,
  account,
}: {
  pool: Pool;
  account: string;
}): Promise<void> {
  while ((await deleteOldEmailLog({ pool, account, days: 0, limit: BATCH })) === BATCH);
  for (const table of [
    "email_log_counts",
    "execution_counts",
    "otp_counts",
    "otps",
    "idempotency_keys",
    "circuits",
  ])
    await pool.query(`delete from ${table} where account = $1`, [account]);
  await pool.query("delete from accounts where id = $1 and deleted_at is not null", [account]);
}
