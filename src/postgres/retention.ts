import { DAY, type Instant } from "../domain/instant.ts";
import type { Clock } from "../domain/ports/clock.ts";
import { purgeAccount, purgeableAccounts } from "./account-purge.ts";
import {
  deleteOldEmailLog,
  dropEmailLogMonth,
  emailLogMonths,
  ensureEmailLogMonth,
} from "./email-log-retention.ts";
import { deleteStaleCircuits } from "./circuits.ts";
import { deleteOldCounts } from "./dashboard-statistics.ts";
import { deleteExpiredIdempotencyKeys } from "./idempotency-keys.ts";
import { deleteExpiredInvitations } from "./invitations.ts";
import { deleteExpiredOtps } from "./otps.ts";
import { dropMonthsBefore, ensureMonthsAhead } from "./partitions.ts";
import { transaction, type Pool } from "./pool.ts";
import { deleteOldSignInFailures } from "./sign-in-brake.ts";
import { deleteExpiredSingleSignOns } from "./single-sign-ons.ts";

export interface RetentionOptions {
  pool: Pool;
  clock: Clock;
  /** The installation's maximum for executions and missed spans, days; 0 keeps all. */
  executionsDays: number;
  /** The installation's maximum for the email log, days; 0 keeps all. */
  logsDays: number;
  /** One line a step that removed something. */
  onRemoved?: (what: string, count: number) => void;
}

const BATCH = 5_000;
/** Cursors, revisions and remembered manual keys outlive their job by a week. */
const CURSOR_DAYS = 7;

/**
 * Makes the partitions of the coming months and removes what is past its time, in short statements.
 * Run it at start and then hourly or daily; safe on several processes at once; interrupted, the next
 * run goes on. Rejects with the first error after every other step had its turn.
 */
export function createRetention(options: RetentionOptions): {
  run(signal: AbortSignal): Promise<void>;
} {
  const { pool, clock, executionsDays, logsDays } = options;

  async function batches(what: string, signal: AbortSignal, text: string, values: unknown[]) {
    let total = 0;
    for (;;) {
      if (signal.aborted) break;
      const { rowCount } = await pool.query(text, [...values, BATCH]);
      total += rowCount ?? 0;
      if ((rowCount ?? 0) < BATCH) break;
    }
    if (total > 0) options.onRemoved?.(what, total);
  }

  async function executions(signal: AbortSignal): Promise<void> {
    await ensureMonthsAhead(pool);
    if (executionsDays > 0) {
      const before = clock.now() - executionsDays * DAY;
      const dropped = await dropMonthsBefore(pool, before);
      if (dropped.length > 0) options.onRemoved?.("months of executions", dropped.length);
      await batches(
        "missed spans",
        signal,
        `delete from missed_spans where id in
           (select id from missed_spans where recorded_at < $1 order by recorded_at limit $2)`,
        [new Date(before)],
      );
    }
    for (const { id, days } of await choosers(executionsDays)) {
      const before = clock.now() - days * DAY;
      await deleteHistory(id, before, signal);
    }
  }

  /** Accounts that keep less than the installation does. */
  async function choosers(maximum: number): Promise<{ id: string; days: number }[]> {
    const { rows } = await pool.query<{ id: string; days: number }>(
      `select id, retention_days as days from accounts
        where retention_days is not null and deleted_at is null
          and ($1 = 0 or retention_days < $1)`,
      [maximum],
    );
    return rows;
  }

  async function deleteHistory(account: string, before: Instant, signal: AbortSignal) {
    const values = [account, new Date(before)];
    await batches(
      "executions",
      signal,
      `delete from executions e using
         (select tableoid, ctid from executions where account = $1 and executed_at < $2 limit $3) as old
        where e.tableoid = old.tableoid and e.ctid = old.ctid and e.account = $1 and e.executed_at < $2`,
      values,
    );
    await batches(
      "missed spans",
      signal,
      `delete from missed_spans where id in
         (select id from missed_spans where account = $1 and last_at < $2 limit $3)`,
      values,
    );
  }

  async function emailLog(signal: AbortSignal): Promise<void> {
    await ensureEmailLogMonth({ pool });
    if (logsDays > 0) {
      const before = new Date(clock.now() - logsDays * DAY).toISOString().slice(0, 7);
      for (const month of await emailLogMonths({ pool }))
        if (month < before && !signal.aborted) await dropEmailLogMonth({ pool, month });
    }
    for (const { id, days } of await choosers(logsDays))
      while (
        !signal.aborted &&
        (await deleteOldEmailLog({ pool, account: id, days, limit: BATCH })) === BATCH
      );
  }

  /** A tombstone's transaction is noted before it goes: a watcher that did not see it must list again. */
  async function tombstones(): Promise<void> {
    await transaction(pool, async (client) => {
      const { rows } = await client.query<{ last: string | null }>(
        `with gone as (
           delete from jobs where deleted_at < now() - interval '1 day' returning changed_xid
         )
         select max(changed_xid)::text as last from gone`,
      );
      const last = rows[0]?.last ?? null;
      if (last === null) return;
      await client.query(
        `update carillon_meta set value = greatest(value::xid8, $1::xid8)::text
          where key = 'jobs_purged_xid'`,
        [last],
      );
    });
  }

  async function cursors(signal: AbortSignal): Promise<void> {
    const old = `select job_uid from job_cursors where deleted_at < now() - interval '${CURSOR_DAYS} days'`;
    for (const table of ["job_history", "job_revisions", "manual_run_keys"])
      await pool.query(`delete from ${table} where job_uid in (${old})`);
    await batches(
      "cursors",
      signal,
      `delete from job_cursors where job_uid in (${old} order by deleted_at limit $1)`,
      [],
    );
    await pool.query(
      `delete from manual_run_keys where requested_at < now() - interval '${CURSOR_DAYS} days'
          and not exists (select from runs r where r.job_uid = manual_run_keys.job_uid
                             and r.trigger = 'manual' and r.key = manual_run_keys.key)`,
    );
    // Revisions that neither the cursor nor an unfinished run refers to.
    await batches(
      "revisions",
      signal,
      `delete from job_revisions v using (
         select v.job_uid, v.generation from job_revisions v join job_cursors c using (job_uid)
          where v.generation < c.generation
            and not exists (select from runs r
                             where r.job_uid = v.job_uid and r.generation = v.generation)
          limit $1
       ) as old where v.job_uid = old.job_uid and v.generation = old.generation`,
      [],
    );
  }

  async function accounts(signal: AbortSignal): Promise<void> {
    for (const account of await purgeableAccounts({ pool })) {
      if (signal.aborted) return;
      await deleteHistory(account, clock.now() + DAY, signal);
      for (const table of ["runs", "jobs"])
        await pool.query(`delete from ${table} where account = $1`, [account]);
      await pool.query(
        `update job_cursors set deleted_at = clock_timestamp(), startable = false, version = version + 1
          where account = $1 and deleted_at is null`,
        [account],
      );
      await purgeAccount({ pool, account });
      options.onRemoved?.("accounts", 1);
    }
  }

  return {
    run: async (signal) => {
      const steps = [
        () => executions(signal),
        () => emailLog(signal),
        tombstones,
        () => cursors(signal),
        () => deleteExpiredIdempotencyKeys({ pool }),
        () => deleteExpiredOtps({ pool }),
        () => deleteStaleCircuits({ pool }),
        () => deleteOldCounts({ pool }),
        () => deleteExpiredInvitations({ pool }),
        () => deleteOldSignInFailures({ pool }),
        () => deleteExpiredSingleSignOns({ pool }),
        () => accounts(signal),
      ];
      const errors: unknown[] = [];
      for (const step of steps) {
        if (signal.aborted) return;
        await step().catch((error: unknown) => errors.push(error));
      }
      if (errors.length > 0) throw errors[0];
    },
  };
}
