import type { OnceState } from "../domain/cursor.ts";
import type {
  ActivityBucket,
  DashboardStatistics,
  LastRun,
  OtpDay,
} from "../domain/ports/dashboard.ts";
import type { StatusCursor } from "../domain/job-status.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { Pool } from "./pool.ts";
import { isUuid } from "./uuid.ts";

/** Counts of the overview, from the counters that the writing transactions keep. */
export function createDashboardStatistics({ pool }: { pool: Pool }): DashboardStatistics {
  return {
    async activity({ account, unit, count }) {
      if (!isUuid(account)) return [];
      // Mail is counted by day; the last hours are read from the log itself, by its primary key.
      const mail =
        unit === "day"
          ? `select day::timestamp at time zone 'UTC' as at, status, sum(entries) as entries
               from email_log_counts, span
              where account = $1 and day >= (first at time zone 'UTC')::date group by 1, 2`
          : `select date_trunc('hour', sent_at) as at, status, count(*) as entries
               from email_log, span where account = $1 and sent_at >= first group by 1, 2`;
      const { rows } = await pool.query<ActivityBucket>(
        `with span as materialized (
           select date_trunc($2, now()) - ($3::int - 1) * ('1 ' || $2)::interval as first
         ), buckets as (
           select first + n * ('1 ' || $2)::interval as at
             from span, generate_series(0, $3::int - 1) as n
         ), mail as (${mail}), runs as (
           select date_trunc($2, hour) as at, status, sum(entries) as entries
             from execution_counts, span where account = $1 and hour >= first group by 1, 2
         )
         select b.at,
                coalesce((select entries from mail m where m.at = b.at and status = 'sent'), 0)::float8 as "mailSent",
                coalesce((select entries from mail m where m.at = b.at and status = 'failed'), 0)::float8 as "mailFailed",
                coalesce((select entries from runs r where r.at = b.at and status = 'success'), 0)::float8 as "runsSucceeded",
                coalesce((select entries from runs r where r.at = b.at and status = 'failed'), 0)::float8 as "runsFailed"
           from buckets b order by b.at`,
        [account, unit, count],
      );
      return rows;
    },

    async otps(account, days) {
      if (!isUuid(account)) return [];
      const { rows } = await pool.query<OtpDay>(
        `with days as (
           select (now() at time zone 'UTC')::date - n as day from generate_series(0, $2::int - 1) as n
         ), mail as (
           select day, status, entries from email_log_counts where account = $1 and kind = 'otp'
         ), outcomes as (select day, outcome, entries from otp_counts where account = $1)
         select to_char(d.day, 'YYYY-MM-DD') as day,
                coalesce((select entries from mail m where m.day = d.day and status = 'sent'), 0)::float8 as sent,
                coalesce((select entries from mail m where m.day = d.day and status = 'failed'), 0)::float8 as "sendFailed",
                coalesce((select entries from outcomes o where o.day = d.day and outcome = 'verified'), 0)::float8 as verified,
                coalesce((select sum(entries) from outcomes o where o.day = d.day and outcome in ('refused', 'burnt')), 0)::float8 as refused,
                coalesce((select entries from outcomes o where o.day = d.day and outcome = 'burnt'), 0)::float8 as burnt
           from days d order by d.day`,
        [account, days],
      );
      return rows;
    },

    async statusCursors(account) {
      if (!isUuid(account)) return new Map();
      // One text instead of a row for each job: with 10,000 rows, parsing them takes longest.
      const { rows } = await pool.query<{ cursors: string | null }>(
        `select string_agg(
                  job_uid || ',' || once || ',' || schedule_hash || ',' || coalesce(halted_generation::text, ''),
                  ' ') as cursors
           from job_cursors
          where account = $1 and deleted_at is null
            and (once <> 'armed' or halted_generation is not null)`,
        [account],
      );
      const cursors = rows[0]?.cursors;
      return new Map(cursors ? cursors.split(" ").map(statusCursorOf) : []);
    },

    async lastRuns(account, which) {
      if (!isUuid(account)) return new Map();
      const { rows } = await pool.query<{ runs: string | null }>(
        `select string_agg(
                  job_uid || left(last_status, 1) || (extract(epoch from last_executed_at) * 1000)::bigint,
                  ' ') as runs
           from job_cursors
          where account = $1 and deleted_at is null and last_execution_id is not null
            and ($2 or last_status = 'failed' or once = 'missed')`,
        [account, which === "all"],
      );
      const runs = rows[0]?.runs;
      return new Map(runs ? runs.split(" ").map(lastRunOf) : []);
    },
  };
}

function statusCursorOf(text: string): [jobUid: string, cursor: StatusCursor] {
  const [uid = "", once = "armed", scheduleHash = "", halted = ""] = text.split(",");
  const haltedGeneration = halted === "" ? null : Number(halted);
  // A check of the table allows no other value of `once`.
  return [uid, { once: once as OnceState, scheduleHash, haltedGeneration }];
}

const UUID_LENGTH = 36;

function lastRunOf(text: string): [jobUid: string, last: LastRun] {
  return [
    text.slice(0, UUID_LENGTH),
    {
      status: text[UUID_LENGTH] === "s" ? "success" : "failed",
      executedAt: Number(text.slice(UUID_LENGTH + 1)),
    },
  ];
}

/** Counts that no chart shows any more. For the retention task. */
export async function deleteOldCounts(options: { pool: Pool } & Batches): Promise<number> {
  const runs = await deleteInBatches({
    ...options,
    table: "execution_counts",
    where: "hour < now() - interval '100 days'",
    oldestFirst: "hour",
  });
  const otps = await deleteInBatches({
    ...options,
    table: "otp_counts",
    where: "day < now()::date - 100",
    oldestFirst: "day",
  });
  return runs + otps;
}
