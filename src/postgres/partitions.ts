import { isoUtc, type Instant } from "../domain/instant.ts";
import { BRIEF_LOCK_TIMEOUT, transaction, type Pool, type Queryable } from "./pool.ts";
import { sqlState } from "./sql-state.ts";

type Partitioned = "executions" | "email_log";

/** "no partition of relation … found for row": a check violation that names no constraint. */
export function lacksPartition(error: unknown, table: Partitioned): boolean {
  const of = error as { constraint?: unknown; table?: unknown };
  return sqlState(error) === "23514" && of.constraint === undefined && of.table === table;
}

/** Makes the table's monthly partitions for these moments. Safe when several processes do it at once. */
export async function ensureMonths(
  database: Queryable,
  table: Partitioned,
  moments: readonly Instant[],
): Promise<void> {
  await database.query(
    `select ${table}_ensure_month(month) from (
       select distinct date_trunc('month', m, 'UTC') as month from unnest($1::timestamptz[]) as m
     ) as months`,
    [moments.map(isoUtc)],
  );
}

/** This month's partition and the next two: a retention task that runs at least monthly keeps ahead. */
export async function ensureMonthsAhead(pool: Pool): Promise<void> {
  await lockingBriefly(pool, (client) =>
    client.query(
      "select executions_ensure_month(now() + n * interval '1 month') from generate_series(0, 2) as n",
    ),
  );
}

/** Drops the partitions that hold nothing younger than `before`. */
export async function dropMonthsBefore(pool: Pool, before: Instant): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select c.relname as name
       from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'executions'::regclass and c.relname ~ '^executions_[0-9]{4}_[0-9]{2}$'
        and (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC' <= $1
      order by 1`,
    [new Date(before)],
  );
  // "If exists": another process may drop it meanwhile.
  for (const { name } of rows)
    await lockingBriefly(pool, (client) => client.query(`drop table if exists ${name}`));
  return rows.map((row) => row.name);
}

/**
 * For a transaction that makes or drops a partition. It locks the whole table, and so waits for everybody who reads
 * it (a backup: for its whole length), while others queue behind it. So it soon gives up and throws; the next round
 * of retention tries again.
 */
export async function lockingBriefly<T>(
  pool: Pool,
  work: (client: Queryable) => Promise<T>,
): Promise<T> {
  return transaction(pool, async (client) => {
    await client.query(`set local lock_timeout = '${BRIEF_LOCK_TIMEOUT}'`);
    return work(client);
  });
}
