import type { ClaimedRun } from "../domain/run.ts";
import type { Queryable } from "./pool.ts";

/**
 * The last gate before bytes leave: commits `started` for claims that still hold and whose job still
 * wants them, judged on the cursor under the run's row lock. Pausing, editing and deleting write the
 * same rows, so whichever commits first decides. What may not start any more is removed and recorded as
 * missed in the same statement. Returns the ids that may be sent.
 */
export async function startRuns(
  database: Queryable,
  runs: readonly ClaimedRun[],
): Promise<Set<string>> {
  if (runs.length === 0) return new Set();
  const { rows } = await database.query<{ id: string }>({
    // Planned each time, and by the primary key, as in closeRuns.
    text: `with input as materialized (
       select * from unnest($1::uuid[], $2::uuid[], $3::int[]) as i(id, token, generation)
     ), mine as materialized (
       select r.id, r.job_uid, r.account, r.trigger, r.generation, r.replaced
         from runs r join input i
           on r.id = i.id and r.claim_token is not distinct from i.token and r.generation = i.generation
        where r.started_at is null and r.lease_until > clock_timestamp()
        order by r.id for update of r
     ), judged as materialized (
       select m.id,
              case when c.job_uid is null or c.deleted_at is not null then 'deleted'
                   when c.account is null or a.deleted_at is not null then 'account_deleted'
                   when m.replaced then 'overlap'
                   when c.generation <> m.generation then 'superseded'
                   when m.trigger = 'schedule' and not c.startable then 'paused'
              end as reason
         from mine m
         left join job_cursors c on c.job_uid = m.job_uid
         left join accounts a on a.id = m.account
     ), started as (
       update runs r
          set started_at = clock_timestamp(),
              first_started_at = coalesce(r.first_started_at, clock_timestamp())
         from judged j where r.id = j.id and j.reason is null
       returning r.id
     ), dropped as (
       delete from runs r using judged j where r.id = j.id and j.reason is not null
       returning r.account, r.job_id, r.job_uid, r.attempts, r.scheduled_at, j.reason
     ), recorded as (
       insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select account, job_id, job_uid, min(scheduled_at), max(scheduled_at), count(*), reason
         from dropped where attempts = 0 group by account, job_id, job_uid, reason
     )
     select id from started`,
    values: [
      runs.map((run) => run.id),
      runs.map((run) => run.claimToken),
      runs.map((run) => run.generation),
    ],
  });
  return new Set(rows.map((row) => row.id));
}
