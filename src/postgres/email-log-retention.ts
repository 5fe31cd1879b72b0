import type { Instant } from "../domain/instant.ts";
import { ensureMonths, lockingBriefly } from "./partitions.ts";
import type { Pool } from "./pool.ts";

/**
 * Makes the partitions of this month and the next, by the database's clock, and those of `moments`. Idempotent;
 * safe when several processes do it at once.
 */
export async function ensureEmailLogMonths({
  pool,
  moments = [],
}: {
  pool: Pool;
  moments?: readonly Instant[];
}): Promise<void> {
  await lockingBriefly(pool, async (client) => {
    await client.query("select email_log_ensure_month(now())");
    await client.query("select email_log_ensure_month(now() + interval '1 month')");
    if (moments.length > 0) await ensureMonths(client, "email_log", moments);
  });
}

/** Months that have a partition, oldest first, as `YYYY-MM` (UTC). */
export async function emailLogMonths({ pool }: { pool: Pool }): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
     where inhparent = 'email_log'::regclass order by relname`,
  );
  return rows
    .map(({ name }) => /^email_log_(\d{4})_(\d{2})$/.exec(name))
    .flatMap((match) => (match === null ? [] : [`${match[1]}-${match[2]}`]));
}

/** Drops one month of the log with its counters, in one transaction, so that `total` stays exact. */
export async function dropEmailLogMonth({
  pool,
  month,
}: {
  pool: Pool;
  /** `YYYY-MM` */
  month: string;
}): Promise<void> {
  if (!/^\d{4}-\d{2}$/.test(month)) throw new Error(`not a month: ${month}`);
  await lockingBriefly(pool, async (client) => {
    await client.query(`drop table if exists email_log_${month.replace("-", "_")}`);
    await client.query(
      `delete from email_log_counts
       where day >= $1::date and day < ($1::date + interval '1 month')::date`,
      [`${month}-01`],
    );
  });
}

/**
 * Deletes up to `limit` of one account's entries that are older than `days` (0: all), and subtracts them from the
 * counters in the same statement. Returns how many went; call again until it is less than `limit`.
 */
export async function deleteOldEmailLog({
  pool,
  account,
  days,
  limit = 5_000,
}: {
  pool: Pool;
  account: string;
  days: number;
  limit?: number;
}): Promise<number> {
  const { rows } = await pool.query<{ deleted: number }>(
    `with old as (
       select id, sent_at from email_log
       where account = $1 and sent_at <= now() - make_interval(days => $2)
       order by sent_at, id limit $3
     ), gone as (
       delete from email_log e using old
       where e.account = $1 and e.sent_at = old.sent_at and e.id = old.id
       returning (e.sent_at at time zone 'UTC')::date as day, e.kind, e.status
     ), fewer as (
       select day, kind, status, count(*) as entries from gone group by day, kind, status
     ), counted as (
       update email_log_counts c set entries = c.entries - fewer.entries from fewer
       where c.account = $1 and c.day = fewer.day and c.kind = fewer.kind
         and c.status = fewer.status
     )
     select count(*)::float8 as deleted from gone`,
    [account, days, limit],
  );
  return rows[0]?.deleted ?? 0;
}
