import { deleteInBatches, inBatches, type Batches } from "./batches.ts";
import { deleteOldEmailLog } from "./email-log-retention.ts";
import type { Pool } from "./pool.ts";

/** Accounts whose 30 days after deletion are over. */
export async function purgeableAccounts({ pool }: { pool: Pool }): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    "select id from accounts where deleted_at <= now() - interval '30 days' order by deleted_at",
  );
  return rows.map((row) => row.id);
}

/**
 * Removes what is left of a deleted account, the account itself last; the caller has removed its jobs, runs and
 * their history. After an interruption, another call goes on where this one stopped.
 */
export async function purgeAccount({
  pool,
  account,
  ...batches
}: {
  pool: Pool;
  account: string;
} & Batches): Promise<void> {
  await inBatches(batches, (limit) => deleteOldEmailLog({ pool, account, days: 0, limit }));
  for (const table of [
    "email_log_counts",
    "execution_counts",
    "otp_counts",
    "otps",
    "idempotency_keys",
    "circuits",
  ])
    await deleteInBatches({
      ...batches,
      pool,
      table,
      where: "account = $1",
      values: [account],
    });
  if (batches.signal?.aborted === true) return;
  await pool.query("delete from accounts where id = $1 and deleted_at is not null", [account]);
}
