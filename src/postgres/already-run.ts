import { isoUtc, MINUTE } from "../domain/instant.ts";
import type { LedgerChange } from "../domain/ports/run-ledger.ts";
import { byKey } from "./by-key.ts";
import type { Queryable } from "./pool.ts";

/**
 * Uids of one-time jobs whose fire time the change creates, or gives up as missed, although a run of that time was
 * attempted or is under way (docs/decisions/0023, "put back"). The cursor alone does not tell, because it knows only
 * the latest fire time.
 */
export async function alreadyAttempted(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<Set<string>> {
  // What is given up may have been attempted after the position too: by a run that had started when its time was taken
  // back. What is created is compared with such a run when it is inserted.
  const putBack = onceTimes(changes).filter(
    ({ from, at, missed }) => from !== undefined && (missed || at <= from.position),
  );
  if (putBack.length === 0) return new Set();
  const { rows } = await client.query<{ job_uid: string }>(
    `select i.job_uid
       from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[])
              as i(job_uid, account, job_id, scheduled_at, key)
      where exists (
          select from executions e where ${ofFireTime("i", "i.scheduled_at")})
         or ${UNDER_WAY}
         -- The execution may have been removed, or be that of a former account.
         or exists (
          select from job_cursors c
           where ${byKey("c.job_uid", "i.job_uid")} and c.last_schedule_time = i.scheduled_at)`,
    [
      putBack.map(({ job }) => job.uid),
      putBack.map(({ job }) => job.account),
      putBack.map(({ job }) => job.id),
      putBack.map(({ at }) => isoUtc(at)),
      putBack.map(({ key }) => key),
    ],
  );
  return new Set(rows.map((row) => row.job_uid));
}

/**
 * For jobs whose cursor the change put back to before a fire time, in order to drop its run, when that run was
 * started meanwhile: the run counts after all, and the cursor says so again. `changes` have been applied, except
 * what they create. Returns the jobs whose cursor was written.
 */
export async function keepStarted(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<string[]> {
  return [...(await keepStartedOnce(client, changes)), ...(await keepStartedCron(client, changes))];
}

/** One-time jobs whose firing was taken back: docs/decisions/0023, "kept". */
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
      where ${byKey("c.job_uid", "i.job_uid")} and ${UNDER_WAY} is true
     returning c.job_uid`,
    [back.map(({ uid }) => uid), back.map(({ key }) => key)],
  );
  return rows.map((row) => row.job_uid);
}

/**
 * Cron jobs: the fire time of the started run stays decided, and becomes the cursor's position. No undecided one
 * lies before it, because runs are prepared by less than a minute, and fire times are at least that far apart. A
 * run more than a minute ahead was started by a clock that was wrong: it is ignored, so that the job goes on now. So is
 * that of a former one-time job, whose time says nothing about the fire times before it.
 */
async function keepStartedCron(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<string[]> {
  const back = changes.flatMap(({ job, from, to }) => {
    if (job.spec.schedule.kind !== "cron" || from === undefined) return [];
    const { uid } = job;
    const until = Math.min(from.position, to.position + MINUTE);
    return from.once === "armed" && to.startable && to.position < from.position
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
 * SQL: whether execution `e` is of this fire time of `job`, also under a deleted account that had the job's namespace
 * before. Executions from before it are not read, since a former cron job may have years of them; the minute allows
 * for a worker whose clock is slow.
 */
export function ofFireTime(job: string, scheduledAt: string): string {
  return `e.account = any(array(
      select ${job}.account
      union all
      select before.id from accounts a join accounts before on before.namespace = a.namespace
       where ${byKey("a.id", `${job}.account`)} and before.deleted_at is not null
    )) and e.job_id = ${job}.job_id
    and e.executed_at >= ${scheduledAt} - interval '1 minute' and e.job_uid = ${job}.job_uid
    and e.trigger = 'schedule' and ${byKey("e.scheduled_at", scheduledAt)}`;
}

/**
 * SQL: whether input `i` has an unfinished run. Only `is true` or `is not true` keep it from becoming a join, which could
 * be one with the runs of all jobs.
 */
const UNDER_WAY = `exists (select from runs r
  where ${byKey("r.job_uid", "i.job_uid")} and r.trigger = 'schedule' and r.key = i.key)`;

/** The fire times of one-time jobs that these changes create, or give up as missed. */
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
 * Settles one-time jobs that were put back to a time at which they had run, since no second run is created that could:
 * docs/decisions/0023, "put back" and "put back, under way". `changes` have been applied; `attempted` are the uids from
 * `alreadyAttempted`. Returns the jobs whose cursor was written.
 */
export async function settleAlreadyRun(
  client: Queryable,
  changes: readonly LedgerChange[],
  attempted: ReadonlySet<string>,
): Promise<string[]> {
  const once = onceTimes(changes).filter(({ job, missed }) => !missed || attempted.has(job.uid));
  if (once.length === 0) return [];
  // Cursors are kept for longer than executions, but know only the last one, which may be of a manual run.
  const { rows } = await client.query<{ job_uid: string }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as i(job_uid, key, scheduled_at)
     ), ran as materialized (
       select i.job_uid, i.scheduled_at, c.last_success_time >= i.scheduled_at as succeeded,
              case when c.last_trigger = 'schedule' and c.last_scheduled_at = i.scheduled_at
                   then c.last_status end as last
         from input i join job_cursors c
           on ${byKey("c.job_uid", "i.job_uid")} and c.last_schedule_time >= i.scheduled_at
        where ${UNDER_WAY} is not true
     ), awaited as (
       update job_cursors c set version = c.version + 1, once = 'fired' from input i
        where ${byKey("c.job_uid", "i.job_uid")} and c.once = 'missed' and ${UNDER_WAY} is true
       returning c.job_uid
     ), settled as (
       update job_cursors c
          set version = c.version + 1,
              once = case coalesce(r.last, (
                  select e.status from executions e where ${ofFireTime("c", "r.scheduled_at")}
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
