import { REMEMBERED_DAYS } from "../domain/cursor.ts";
import { DAY, type Instant } from "../domain/instant.ts";
import type { Clock } from "../domain/ports/clock.ts";
import { purgeAccount, purgeableAccounts } from "./account-purge.ts";
import { deleteInBatches, inBatches, inPages, type Batches, type Page } from "./batches.ts";
import { deleteStoredJobs } from "./cancel-account-runs.ts";
import { deleteMonthsCounts, deleteOldEmailLog } from "./email-log-retention.ts";
import { deleteStaleCircuits } from "./circuits.ts";
import { deleteOldCounts } from "./dashboard-statistics.ts";
import { deleteExpiredIdempotencyKeys } from "./idempotency-keys.ts";
import { deleteExpiredInvitations } from "./invitations.ts";
import { deleteExpiredOtps } from "./otps.ts";
import { dropMonthsBefore, ensureMonthsAhead } from "./partitions.ts";
import { fixPlans, transaction, type Pool } from "./pool.ts";
import { deleteExpiredSessions } from "./sessions.ts";
import { deleteOldSignInFailures } from "./sign-in-brake.ts";
import { deleteExpiredSingleSignOns } from "./single-sign-ons.ts";
import { NIL_UUID } from "./uuid.ts";

export interface RetentionOptions {
  pool: Pool;
  clock: Clock;
  /** The installation's maximum for executions, missed spans and the email log, days; 0 keeps all. */
  retentionDays: number;
  /** Called for each step that removed history, accounts, or what belongs to jobs. */
  onRemoved?: (what: string, count: number) => void;
  /** Most rows that one statement removes. */
  batchSize?: number;
}

/** One run of the task: until its signal aborts, in batches of one size. */
type Sweep = Batches & { pool: Pool; signal: AbortSignal };

/**
 * Rows with a job's spec that one statement removes. Each may have 256 KiB: five thousand of them would be read from
 * the disk for longer than a statement may take, again and again.
 */
const SPEC_ROWS_AT_A_TIME = 250;

function ofSpecs<S extends Sweep>(sweep: S): S {
  return { ...sweep, size: sweep.size ?? SPEC_ROWS_AT_A_TIME };
}

/** Tables with an index on account, job and time. */
const HISTORY = [
  { what: "executions", table: "executions", at: "executed_at" },
  { what: "missed spans", table: "missed_spans", at: "last_at" },
] as const;

/**
 * Makes the partitions of the coming months and removes what is past its time, in short statements.
 * Run it at start and then hourly or daily; safe on several processes at once; after an interruption the next
 * run goes on. When steps fail, the others still run, and it rejects with the first error at the end.
 */
export function createRetention(options: RetentionOptions): {
  run(signal: AbortSignal): Promise<void>;
} {
  const { pool, clock, retentionDays } = options;

  function removed(what: string, count: number): void {
    if (count > 0) options.onRemoved?.(what, count);
  }

  /** The statement's last parameter is the most rows that it removes. */
  async function remove(what: string, sweep: Sweep, text: string, values: unknown[]) {
    const count = await inBatches(sweep, async (limit) => {
      const { rowCount } = await pool.query(text, [...values, limit]);
      return rowCount ?? 0;
    });
    removed(what, count);
  }

  async function executions(sweep: Sweep): Promise<void> {
    await ensureMonthsAhead(pool, "executions");
    if (retentionDays > 0) {
      const before = clock.now() - retentionDays * DAY;
      const months = await dropMonthsBefore({ ...sweep, table: "executions", before });
      removed("months of executions", months);
      const spans = await deleteInBatches({
        ...sweep,
        table: "missed_spans",
        where: "recorded_at < $1",
        values: [new Date(before)],
        oldestFirst: "recorded_at",
      });
      removed("missed spans", spans);
    }
    for (const { id, days } of await accountsThatKeepLess())
      await deleteHistory(id, clock.now() - days * DAY, sweep);
  }

  /** Accounts with a shorter retention than the installation's. */
  async function accountsThatKeepLess(): Promise<{ id: string; days: number }[]> {
    const { rows } = await pool.query<{ id: string; days: number }>(
      `select id, retention_days as days from accounts
        where retention_days is not null and deleted_at is null
          and ($1 = 0 or retention_days < $1)`,
      [retentionDays],
    );
    return rows;
  }

  /**
   * Goes through the account's jobs in their order: the planner expects old rows to be anywhere, and a plain search
   * for some of them would read the rows of all accounts.
   */
  async function deleteHistory(account: string, before: Instant, sweep: Sweep) {
    for (const { what, table, at } of HISTORY) {
      const count = await inPages(sweep, "", (after, size) =>
        transaction(pool, async (client) => {
          await fixPlans(client);
          const { rows } = await client.query<Page>(
            `with page as materialized (
               select job_id from ${table} where account = $1 and job_id > $2 order by job_id limit $4
             ), old as materialized (
               select tableoid, ctid from ${table}
                where account = $1 and job_id > $2 and job_id <= (select max(job_id) from page)
                  and ${at} < $3
                limit $4
             ), gone as (
               delete from ${table} t using old
                where t.tableoid = old.tableoid and t.ctid = old.ctid and t.account = $1 and t.${at} < $3
               returning 1
             )
             select (select count(*) from gone) as count, (select max(job_id) from page) as last`,
            [account, after, new Date(before), size],
          );
          return rows[0];
        }),
      );
      removed(what, count);
    }
  }

  async function emailLog(sweep: Sweep): Promise<void> {
    await ensureMonthsAhead(pool, "email_log");
    if (retentionDays > 0) {
      const months = await dropMonthsBefore({
        ...sweep,
        table: "email_log",
        before: clock.now() - retentionDays * DAY,
        along: deleteMonthsCounts,
      });
      removed("months of the email log", months);
    }
    for (const { id, days } of await accountsThatKeepLess())
      await inBatches(sweep, (limit) => deleteOldEmailLog({ pool, account: id, days, limit }));
  }

  /**
   * Deleted jobs. The last transaction among them is noted when they go: a watcher that has not read it must list
   * again.
   */
  async function tombstones(sweep: Sweep): Promise<void> {
    await inBatches(ofSpecs(sweep), (limit) =>
      transaction(pool, async (client) => {
        const { rows } = await client.query<{ count: number; last: string | null }>(
          `with gone as (
             delete from jobs where uid in (
               select uid from jobs where deleted_at < now() - interval '1 day'
                order by deleted_at limit $1
             ) returning changed_xid
           )
           select count(*) as count, max(changed_xid)::text as last from gone`,
          [limit],
        );
        const { count = 0, last = null } = rows[0] ?? {};
        if (last !== null)
          await client.query(
            `update carillon_meta set value = greatest(value::xid8, $1::xid8)::text
              where key = 'jobs_purged_xid'`,
            [last],
          );
        return count;
      }),
    );
  }

  async function cursors(sweep: Sweep): Promise<void> {
    const manualKeys = await deleteInBatches({
      ...sweep,
      table: "manual_run_keys",
      where: `requested_at < now() - interval '${REMEMBERED_DAYS} days'
          and not exists (select from runs r where r.job_uid = manual_run_keys.job_uid
                             and r.trigger = 'manual' and r.key = manual_run_keys.key)`,
      oldestFirst: "requested_at",
    });
    removed("manual run keys", manualKeys);
    // With their revisions, unless a run is still to be closed, which needs its revision.
    await remove(
      "cursors",
      ofSpecs(sweep),
      `with old as materialized (
         select job_uid from job_cursors c
          where deleted_at < now() - interval '${REMEMBERED_DAYS} days'
            and not exists (select from runs r where r.job_uid = c.job_uid)
          order by deleted_at limit $1 for update skip locked
       ), revisions as (
         delete from job_revisions v using old where v.job_uid = old.job_uid
       )
       delete from job_cursors c using old where c.job_uid = old.job_uid`,
      [],
    );
  }

  /**
   * Revisions to which neither the cursor nor an unfinished run refers. Skips locked cursors: a leader may just be
   * going back to an older revision, when the store was restored. In pages of jobs: few jobs were ever edited, and
   * a statement has not the time to look for them among millions.
   */
  async function revisions(sweep: Sweep): Promise<void> {
    const count = await inPages(ofSpecs(sweep), NIL_UUID, async (after, size) => {
      const { rows } = await pool.query<Page>(
        `with page as materialized (
           select job_uid, generation from job_cursors where job_uid > $1 order by job_uid limit $2
         ), old as materialized (
           select v.job_uid, v.generation
             from page p join job_cursors c using (job_uid) join job_revisions v using (job_uid)
            where p.generation > 1 and v.generation < c.generation
              and not exists (select from runs r
                               where r.job_uid = v.job_uid and r.generation = v.generation)
            limit $2 for no key update of c skip locked
         ), gone as (
           delete from job_revisions v using old
            where v.job_uid = old.job_uid and v.generation = old.generation
           returning 1
         )
         select (select count(*) from gone) as count,
                (select job_uid from page order by job_uid desc limit 1) as last`,
        [after, size],
      );
      return rows[0];
    });
    removed("revisions", count);
  }

  /**
   * Jobs that were being created when their account was deleted. None of them starts; watchers of the jobs see them
   * go.
   */
  async function jobsWithoutAccount({ signal, size }: Sweep): Promise<void> {
    const { rows } = await pool.query<{ id: string }>(
      "select id from accounts where deleted_at is not null",
    );
    for (const { id } of rows) {
      if (signal.aborted) return;
      removed("jobs of deleted accounts", await deleteStoredJobs(pool, id, size));
    }
  }

  async function accounts(sweep: Sweep): Promise<void> {
    for (const account of await purgeableAccounts({ pool })) {
      await deleteHistory(account, clock.now() + DAY, sweep);
      const theirs = { ...sweep, where: "account = $1", values: [account] };
      await deleteInBatches({ ...theirs, table: "runs" });
      await deleteInBatches({ ...ofSpecs(theirs), table: "jobs" });
      await remove(
        "cursors of deleted accounts",
        sweep,
        `update job_cursors
            set deleted_at = clock_timestamp(), startable = false, version = version + 1
          where ctid = any(array(
                  select ctid from job_cursors where account = $1 and deleted_at is null limit $2))
            and account = $1 and deleted_at is null`,
        [account],
      );
      await purgeAccount({ ...sweep, account });
      if (sweep.signal.aborted) return;
      removed("accounts", 1);
    }
  }

  return {
    run: async (signal) => {
      const sweep = { pool, signal, size: options.batchSize };
      const errors: unknown[] = [];
      for (const step of [
        executions,
        emailLog,
        tombstones,
        cursors,
        revisions,
        jobsWithoutAccount,
        deleteExpiredIdempotencyKeys,
        deleteExpiredOtps,
        deleteStaleCircuits,
        deleteOldCounts,
        deleteExpiredInvitations,
        deleteOldSignInFailures,
        deleteExpiredSingleSignOns,
        deleteExpiredSessions,
        accounts,
      ]) {
        if (signal.aborted) return;
        await step(sweep).catch((error: unknown) => errors.push(error));
      }
      if (errors.length > 0) throw errors[0];
    },
  };
}
