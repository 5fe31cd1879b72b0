import { isoUtc, MINUTE } from "../domain/instant.ts";
import type { LedgerChange } from "../domain/ports/run-ledger.ts";
import { byKey } from "./by-key.ts";
import type { Queryable } from "./pool.ts";

/**
 * One-times whose fire time is to be created, or given up as missed, although they had been decided beyond it,
 * and that was attempted, or is under way: the job was moved and has been put back. Of these the cursor, which
 * knows the latest fire time alone, would not tell.
 */
export async function alreadyAttempted(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<Set<string>> {
  const back = onceTimes(changes).filter(
    ({ from, at }) => from !== undefined && at <= from.position,
  );
  if (back.length === 0) return new Set();
  const { rows } = await client.query<{ job_uid: string }>(
    `select i.job_uid
       from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[])
              as i(job_uid, account, job_id, scheduled_at, key)
      where exists (
          select from executions e
           where e.account = i.account and e.job_id = i.job_id and ${ofFireTime("i.job_uid", "i.scheduled_at")})
         or exists (${UNDER_WAY})`,
    [
      back.map(({ job }) => job.uid),
      back.map(({ job }) => job.account),
      back.map(({ job }) => job.id),
      back.map(({ at }) => isoUtc(at)),
      back.map(({ key }) => key),
    ],
  );
  return new Set(rows.map((row) => row.job_uid));
}

/**
 * Jobs whose cursor is put back to before a fire time, because its run was to be dropped, and whose run has been started
 * after that was decided: it counts as before. `changes` have been applied, without what they create. Returns the jobs
 * whose cursor was written.
 */
export async function keepStarted(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<string[]> {
  return [...(await keepStartedOnce(client, changes)), ...(await keepStartedCron(client, changes))];
}

/** One-times whose firing is taken back: they await their only run as before. */
async function keepStartedOnce(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<string[]> {
  const back = changes.flatMap(({ job, from, to }) =>
    job.spec.schedule.kind === "once" && from?.once === "fired" && to.once === "armed"
      ? [{ uid: job.uid, key: isoUtc(job.spec.schedule.at) }]
      : [],
  );
  if (back.length === 0) return [];
  const { rows } = await client.query<{ job_uid: string }>(
    `update job_cursors c set version = c.version + 1, once = 'fired'
       from unnest($1::uuid[], $2::text[]) as i(job_uid, key)
      where ${byKey("c.job_uid", "i.job_uid")} and exists (${UNDER_WAY})
     returning c.job_uid`,
    [back.map(({ uid }) => uid), back.map(({ key }) => key)],
  );
  return rows.map((row) => row.job_uid);
}

/**
 * Crons: the fire time of the run is decided, whatever it would come to now. Runs are prepared by less than the minute
 * that lies between fire times, so that none before it is to be decided yet. A run of a later time was started by a clock
 * that was wrong, and does not keep the job from going on now.
 */
async function keepStartedCron(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<string[]> {
  const back = changes.flatMap(({ job, from, to }) => {
    if (job.spec.schedule.kind !== "cron" || from === undefined) return [];
    const { uid } = job;
    const until = Math.min(from.position, to.position + MINUTE);
    return to.startable && to.position < from.position
      ? [{ uid, after: isoUtc(to.position), until: isoUtc(until) }]
      : [];
  });
  if (back.length === 0) return [];
  const { rows } = await client.query<{ job_uid: string }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as i(job_uid, after, until)
     ), ran as materialized (
       select i.job_uid, (
           select max(at) from (
             select scheduled_at as at from runs r
              where ${byKey("r.job_uid", "i.job_uid")} and r.trigger = 'schedule' and r.started_at is not null
             union all
             select last_schedule_time from job_cursors c where ${byKey("c.job_uid", "i.job_uid")}
           ) as times where at > i.after and at <= i.until
         ) as at
         from input i
     )
     update job_cursors c set version = c.version + 1, position = r.at from ran r
      where ${byKey("c.job_uid", "r.job_uid")} and r.at is not null
     returning c.job_uid`,
    [back.map(({ uid }) => uid), back.map(({ after }) => after), back.map(({ until }) => until)],
  );
  return rows.map((row) => row.job_uid);
}

/**
 * Of execution `e`. None is of before its fire time, but for what a worker's reading of the clock is off: a job that was a
 * cron for years has many before.
 */
export function ofFireTime(jobUid: string, scheduledAt: string): string {
  return `e.executed_at >= ${scheduledAt} - interval '1 minute' and e.job_uid = ${jobUid}
    and e.trigger = 'schedule' and ${byKey("e.scheduled_at", scheduledAt)}`;
}

/** Of input `i`. */
const UNDER_WAY = `select from runs r
  where ${byKey("r.job_uid", "i.job_uid")} and r.trigger = 'schedule' and r.key = i.key`;

/** The fire times of one-times that these changes create, or give up as missed. */
function onceTimes(changes: readonly LedgerChange[]) {
  return changes.flatMap(({ job, from, create, missed }) => {
    if (job.spec.schedule.kind !== "once") return [];
    const time = { job, from };
    return [
      ...create
        .filter(({ trigger }) => trigger === "schedule")
        .map(({ key, scheduledAt }) => ({ ...time, key, at: scheduledAt, missed: false })),
      ...missed.map(({ first }) => ({ ...time, key: isoUtc(first), at: first, missed: true })),
    ];
  });
}

/**
 * One-times that were put back to a time at which they had run: no run is created for it a second time, so
 * that none would ever settle them, and it was not missed. They are as that run left them; `changes` have been
 * applied, and `attempted` are those of them of which `alreadyAttempted` knew. A run that is not over yet
 * settles its job itself. Returns the jobs whose cursor was written.
 */
export async function settleAlreadyRun(
  client: Queryable,
  changes: readonly LedgerChange[],
  attempted: ReadonlySet<string>,
): Promise<string[]> {
  const once = onceTimes(changes).filter(({ job, missed }) => !missed || attempted.has(job.uid));
  if (once.length === 0) return [];
  // The cursor outlives executions, but knows the last one only, which may be of a manual run.
  const { rows } = await client.query<{ job_uid: string }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as i(job_uid, key, scheduled_at)
     ), ran as materialized (
       select i.job_uid, i.scheduled_at, c.last_success_time >= i.scheduled_at as succeeded,
              case when c.last_trigger = 'schedule' and c.last_scheduled_at = i.scheduled_at
                   then c.last_status end as last
         from input i join job_cursors c
           on ${byKey("c.job_uid", "i.job_uid")} and c.last_schedule_time >= i.scheduled_at
        where not exists (${UNDER_WAY})
     ), awaited as (
       update job_cursors c set version = c.version + 1, once = 'fired' from input i
        where ${byKey("c.job_uid", "i.job_uid")} and c.once = 'missed' and exists (${UNDER_WAY})
       returning c.job_uid
     ), settled as (
       update job_cursors c
          set version = c.version + 1,
              once = case coalesce(r.last, (
                  select e.status from executions e
                   where e.account = c.account and e.job_id = c.job_id
                     and ${ofFireTime("c.job_uid", "r.scheduled_at")}
                   order by e.executed_at desc, e.id desc limit 1
                ), case when r.succeeded then 'success' end)
                when 'success' then 'completed' else 'failed' end
         from ran r where ${byKey("c.job_uid", "r.job_uid")} and c.once in ('fired', 'missed')
       returning c.job_uid
     )
     select job_uid from awaited union all select job_uid from settled`,
    [once.map(({ job }) => job.uid), once.map(({ key }) => key), once.map(({ at }) => isoUtc(at))],
  );
  return rows.map((row) => row.job_uid);
}
