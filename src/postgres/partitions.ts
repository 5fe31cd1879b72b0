import { isoUtc, type Instant } from "../domain/instant.ts";
import { BRIEF_LOCK_TIMEOUT, transaction, type Pool, type Queryable } from "./pool.ts";
import { sqlState } from "./sql-state.ts";

type Partitioned = "executions" | "email_log";

/** "no partition of relation … found for row": a check violation that names no constraint. */
export function lacksPartition(error: unknown, table: Partitioned): boolean {
  const of = error as { constraint?: unknown; table?: unknown };
  return sqlState(error) === "23514" && of.constraint === undefined && of.table === table;
}

/**
 * Makes the table's monthly partitions for these moments; null is now, by the database's clock. Safe when several
 * processes do it at once.
 */
export async function ensureMonths(
  database: Queryable,
  table: Partitioned,
  moments: readonly (Instant | null)[],
): Promise<void> {
  await database.query(
    `select ${table}_ensure_month(month) from (
       select distinct date_trunc('month', coalesce(m, now()), 'UTC') as month
         from unnest($1::timestamptz[]) as m
     ) as months`,
    [moments.map((moment) => (moment === null ? null : isoUtc(moment)))],
  );
}

/** This month's partition and the next two: a retention task that runs at least monthly keeps ahead. */
export async function ensureMonthsAhead(pool: Pool, table: Partitioned): Promise<void> {
  await lockingBriefly(pool, (client) =>
    client.query(
      `select ${table}_ensure_month(now() + n * interval '1 month') from generate_series(0, 2) as n`,
    ),
  );
}

/**
 * Drops the partitions that hold nothing younger than `before`, until the signal aborts, and returns how many.
 * `along` deletes in the same transaction what belongs to the month that begins on the day.
 */
export async function dropMonthsBefore({
  pool,
  table,
  before,
  signal,
  along,
}: {
  pool: Pool;
  table: Partitioned;
  before: Instant;
  signal: AbortSignal;
  along?: (client: Queryable, day: string) => Promise<void>;
}): Promise<number> {
  const { rows } = await pool.query<{ name: string; day: string }>(
    `select name, day::text from (
       select c.relname as name, to_date(right(c.relname, 7), 'YYYY_MM') as day
         from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = '${table}'::regclass and c.relname ~ '^${table}_[0-9]{4}_[0-9]{2}$'
     ) as months
      where (day + interval '1 month') at time zone 'UTC' <= $1
      order by day`,
    [new Date(before)],
  );
  let dropped = 0;
  for (const { name, day } of rows) {
    if (signal.aborted) break;
    await lockingBriefly(pool, async (client) => {
      // "If exists": another process may drop it meanwhile.
      await client.query(`drop table if exists ${name}`);
      await along?.(client, day);
    });
    dropped += 1;
  }
  return dropped;
}

/**
 * For a transaction that makes or drops a partition. It locks the whole table, and so waits for everybody who reads
 * it (a backup: for its whole length), while others queue behind it. So it soon gives up and throws; the next round
 * of retention tries again.
 */
export async function lockingBriefly(
  pool: Pool,
  work: (client: Queryable) => Promise<unknown>,
): Promise<void> {
  await transaction(pool, async (client) => {
    await client.query(`set local lock_timeout = '${BRIEF_LOCK_TIMEOUT}'`);
    await work(client);
  });
}
