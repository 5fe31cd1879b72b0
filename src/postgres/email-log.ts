import { isoUtc, type Instant } from "../domain/instant.ts";
import {
  MAIL_KINDS,
  MAIL_STATUSES,
  type EmailLogEntry,
  type NewEmailLogEntry,
} from "../domain/mail.ts";
import { LockHeld } from "../domain/ports/dependency-unavailable.ts";
import type { EmailLog } from "../domain/ports/mail.ts";
import type { Pace } from "../waiting/pace.ts";
import { createGroupCommit } from "../waiting/group-commit.ts";
import { heldLocks } from "./held-locks.ts";
import { ensureMonths, lacksPartition, lockingBriefly } from "./partitions.ts";
import { transaction, type Pool } from "./pool.ts";
import { plainArray } from "./rows.ts";
import { withContentErrors } from "./content-errors.ts";
import { isRowFault } from "./sql-state.ts";

/**
 * The log of every mail. Appends are committed in groups together with the counters that make `total` exact without
 * counting; a group updates a counter row once, so that sends of one account do not queue for it. Entries of
 * accounts whose counters somebody has locked go into groups of their own until one of them is written: the other
 * accounts wait for such a lock only once.
 */
export function createEmailLog({ pool, pace }: { pool: Pool; pace?: Pace }): EmailLog {
  /** Accounts whose counters were locked when they were last written. */
  const held = new Set<string>();
  const [appends, appendsOfHeld] = [createGroup(), createGroup()];

  function createGroup() {
    const group = createGroupCommit<NewEmailLogEntry, EmailLogEntry | Promise<EmailLogEntry>>({
      commit: async (entries) => {
        try {
          return await write(entries);
        } catch (error) {
          if (!(error instanceof LockHeld)) throw error;
          const locked = await heldLocks(pool, () => lockedAccounts(pool, entries));
          const free = entries.filter(({ account }) => !locked.has(account));
          if (free.length === entries.length) throw error;
          for (const account of locked) held.add(account);
          const made = free.length === 0 ? [] : await write(free);
          const written = new Map(made.map((one, index) => [free[index], one]));
          return entries.map((entry) => written.get(entry) ?? Promise.reject(error));
        }
      },
      pace,
      isRowFault,
    });
    return { submit: async (entry: NewEmailLogEntry) => group.submit(entry) };
  }

  async function write(entries: readonly NewEmailLogEntry[]): Promise<EmailLogEntry[]> {
    const made = await insertWithMonths(pool, entries);
    for (const { account } of entries) held.delete(account);
    return made;
  }

  return {
    append: (entry) =>
      withContentErrors(() => (held.has(entry.account) ? appendsOfHeld : appends).submit(entry)),
    locked: (entries, options) => heldLocks(pool, () => lockedAccounts(pool, entries), options),
    async ready(account) {
      await transaction(pool, async (client) => {
        // Waits, as an insert would, for a lock that keeps entries out.
        await client.query("lock table email_log in row exclusive mode");
        // A write that changes no count.
        await client.query(
          `insert into email_log_counts as c (account, day, kind, status, entries)
           values ($1, (now() at time zone 'UTC')::date, 'email', 'sent', 0)
           on conflict (account, day, kind, status) do update set entries = c.entries`,
          [account],
        );
      });
    },
    async list(query) {
      const { text, values } =
        query.to === undefined ? listStatement(query) : recipientStatement(query, query.to);
      const { rows } = await pool.query<
        { total: number } & (EmailLogEntry | { [K in keyof EmailLogEntry]: null })
      >(text, values);
      const logs: EmailLogEntry[] = [];
      // An empty page is one row with only the total.
      for (const { id, kind, to, subject, status, errorMessage, sentAt } of rows)
        if (id !== null) logs.push({ id, kind, to, subject, status, errorMessage, sentAt });
      return { logs, total: rows[0]?.total ?? 0 };
    },
  };
}

const ENTRY_COLUMNS = `e.id, e.kind, e.recipient as "to", e.subject, e.status,
  e.error_message as "errorMessage", e.sent_at as "sentAt"`;
const NEWEST_FIRST = "order by sent_at desc, id desc";

async function insertWithMonths(
  pool: Pool,
  entries: readonly NewEmailLogEntry[],
): Promise<EmailLogEntry[]> {
  try {
    return await insert(pool, entries);
  } catch (error) {
    if (!lacksPartition(error, "email_log")) throw error;
    // The first mail of a month for which no retention task has made the partition.
    const moments = entries.map(({ known }) => known?.sentAt ?? null);
    await lockingBriefly(pool, (client) => ensureMonths(client, "email_log", moments));
    return insert(pool, entries);
  }
}

/**
 * Accounts on whose counters somebody holds a lock now: not, for instance, another process's group that has entries of
 * a locked account among others and waits for it. Does not wait.
 */
async function lockedAccounts(
  pool: Pool,
  entries: readonly NewEmailLogEntry[],
): Promise<Set<string>> {
  const { rows } = await pool.query<{ account: string }>(
    `with asked as materialized (
       select account, (coalesce(known_at, now()) at time zone 'UTC')::date as day, kind, status
         from unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[]) as e(account, kind, status, known_at)
     ), there as materialized (
       select account, day, kind, status, c.xmax as holder
         from email_log_counts c join asked using (account, day, kind, status)
     ), free as materialized (
       select account, day, kind, status from email_log_counts join asked using (account, day, kind, status)
          for update of email_log_counts skip locked
     ), waiting as materialized (
       select holds.transactionid as holder from pg_locks holds join pg_locks waits using (pid)
        where holds.locktype = 'transactionid' and holds.granted and not waits.granted
     )
     select account from there
      where (account, day, kind, status) not in (select * from free)
        and holder not in (select holder from waiting)`,
    [
      plainArray(entries.map(({ account }) => account)),
      plainArray(entries.map(({ kind }) => kind)),
      plainArray(entries.map(({ status }) => status)),
      entries.map(({ known }) => (known ? isoUtc(known.sentAt) : null)),
    ],
  );
  return new Set(rows.map(({ account }) => account));
}

async function insert(pool: Pool, entries: readonly NewEmailLogEntry[]): Promise<EmailLogEntry[]> {
  // One statement is one transaction and one round trip. The counters are locked in key order, so that two gateways
  // that count for the same accounts cannot deadlock.
  const { rows } = await pool.query<{ id: string; sentAt: Instant }>({
    name: "email_log_append",
    text: `with entries as materialized (
        select coalesce(known_id, uuidv7()) as id, coalesce(known_at, now()) as sent_at, e.*
          from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[],
                      $8::timestamptz[]) with ordinality
            as e (account, kind, recipient, subject, status, error_message, known_id, known_at, position)
      ), logged as (
        insert into email_log (id, account, kind, recipient, subject, status, error_message, sent_at)
        select id, account, kind, recipient, subject, status, error_message, sent_at from entries
        on conflict do nothing
        returning account, (sent_at at time zone 'UTC')::date as day, kind, status
      ), counted as (
        insert into email_log_counts as c (account, day, kind, status, entries)
        select account, day, kind, status, count(*)
        from logged group by account, day, kind, status order by account, day, kind, status
        on conflict (account, day, kind, status)
          do update set entries = c.entries + excluded.entries
      )
      select id, sent_at as "sentAt" from entries order by position`,
    values: [
      entries.map((e) => e.account),
      entries.map((e) => e.kind),
      entries.map((e) => e.to),
      entries.map((e) => e.subject),
      entries.map((e) => e.status),
      entries.map((e) => e.errorMessage),
      entries.map((e) => e.known?.id ?? null),
      entries.map((e) => (e.known ? isoUtc(e.known.sentAt) : null)),
    ],
  });
  if (rows.length !== entries.length) throw new Error("the email log wrote fewer rows than given");
  return entries.map(({ kind, to, subject, status, errorMessage }, index) => ({
    ...(rows[index] as { id: string; sentAt: Instant }),
    kind,
    to,
    subject,
    status,
    errorMessage,
  }));
}

type ListQuery = Parameters<EmailLog["list"]>[0];

/**
 * Total and page from one snapshot. The counters also tell on which day the offset falls, so that a deep page skips
 * whole days without reading them. Each wanted (kind, status) is a range of one index, already in order; each is
 * limited to what the page can need, since PostgreSQL does not merge them lazily.
 */
function listStatement(query: ListQuery): { text: string; values: unknown[] } {
  const kinds = query.kind === undefined ? MAIL_KINDS : [query.kind];
  const statuses = query.status === undefined ? MAIL_STATUSES : [query.status];
  const values = [query.account, kinds, statuses, query.limit, query.offset];
  const before = "sent_at < (select ends from place)";
  const unfiltered = query.kind === undefined && query.status === undefined;
  const source = unfiltered
    ? `select * from email_log where account = $1 and ${before}`
    : kinds
        .flatMap((kind) => statuses.map((status) => ({ kind, status })))
        .map(
          ({ kind, status }) =>
            `(select * from email_log where account = $1 and kind = '${kind}'
              and status = '${status}' and ${before}
              ${NEWEST_FIRST} limit $4::bigint + $5::bigint - (select skipped from place))`,
        )
        .join(" union all ");
  const text = `with days as (
      select day, sum(entries) as entries, sum(sum(entries)) over (order by day desc) as through
      from email_log_counts
      where account = $1 and kind = any($2) and status = any($3) group by day
    ), place as (
      select (day + 1)::timestamp at time zone 'UTC' as ends, through - entries as skipped
      from days where through > $5 order by day desc limit 1
    ), page as (
      select * from (${source}) as source ${NEWEST_FIRST}
      limit $4 offset $5 - coalesce((select skipped from place), 0)
    )
    select (select coalesce(sum(entries), 0)::float8 from days) as total, ${ENTRY_COLUMNS}
    from (select 1) as always left join page as e on true
    order by e.sent_at desc, e.id desc`;
  return { text, values };
}

/** For one recipient, without regard to case: such mails are few, and counted by an index. */
function recipientStatement(query: ListQuery, to: string): { text: string; values: unknown[] } {
  const filter = `account = $1 and lower(recipient) = lower($2)
    and ($3::text is null or kind = $3) and ($4::text is null or status = $4)`;
  const text = `select (select count(*)::float8 from email_log where ${filter}) as total,
      ${ENTRY_COLUMNS}
    from (select 1) as always left join (
      select * from email_log where ${filter} ${NEWEST_FIRST} limit $5 offset $6
    ) as e on true
    order by e.sent_at desc, e.id desc`;
  return {
    text,
    values: [
      query.account,
      to,
      query.kind ?? null,
      query.status ?? null,
      query.limit,
      query.offset,
    ],
  };
}
