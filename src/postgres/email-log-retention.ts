import type { Pool, Queryable } from "./pool.ts";

/** Deletes the counters of the month that begins on the day: when its entries go, `total` stays exact. */
export async function deleteMonthsCounts(database: Queryable, day: string): Promise<void> {
  await database.query(
    `delete from email_log_counts
      where day >= $1::date and day < ($1::date + interval '1 month')::date`,
    [day],
  );
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
