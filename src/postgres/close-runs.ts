import type { Closing } from "../domain/ports/run-queue.ts";
import type { Queryable } from "./pool.ts";
import { timestamp } from "./rows.ts";

/**
 * Records attempts and finishes or re-queues their runs in one statement, comparing claim tokens.
 * Returns the runs that were still held, and the jobs whose cursor was written. A one-time's final outcome and a halt go to the cursor, whose
 * version rises: a leader that decides on the old state loses its compare-and-set and looks again.
 */
export async function closeRuns(
  database: Queryable,
  closings: readonly Closing[],
): Promise<Closed> {
  if (closings.length === 0) return { runs: new Map(), cursors: [] };
  const column = <T>(of: (closing: Closing) => T) => closings.map(of);
  const { rows } = await database.query<{ id: string; job_uid: string; decided: boolean }>({
    // Not a named statement: the queue is empty one minute and long the next, and a plan kept from the
    // quiet one compares each row with each. No step joins two others, whose sizes the planner cannot
    // know; and "=" on the token would let it read the index of all claimed runs, once for each row.
    text: `with input as materialized (
       select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::text[],
                            $7::timestamptz[], $8::text[], $9::timestamptz[])
         as i(id, token, status, http_status, duration_ms, error_message, executed_at, next, retry_at)
     ), mine as materialized (
       select r.id, r.account, r.job_id, r.job_uid, r.generation, r.trigger, r.scheduled_at,
              r.attempts + 1 as attempt, i.status, i.http_status, i.duration_ms, i.error_message,
              i.executed_at, i.retry_at, uuidv7() as execution_id,
              case when r.replaced and i.next = 'retry' then 'finished' else i.next end as next
         from runs r join input i on r.id = i.id and r.claim_token is not distinct from i.token
        order by r.id for update of r
     ), finished as (
       delete from runs r using mine m where r.id = m.id and m.next <> 'retry'
     ), retried as (
       update runs r
          set attempts = m.attempt, not_before = m.retry_at, claim_token = null, worker = null,
              lease_until = null, started_at = null
         from mine m where r.id = m.id and m.next = 'retry'
     ), executed as (
       insert into executions
         (id, account, job_id, job_uid, run_id, status, http_status, duration_ms, error_message,
          executed_at, attempt, trigger, scheduled_at)
       select execution_id, account, job_id, job_uid, id, status, http_status, duration_ms,
              error_message, executed_at, attempt, trigger, scheduled_at
         from mine
     ), remembered as (
       insert into job_history as h (job_uid, last_schedule_time, last_success_time, last_execution)
       select job_uid,
              max(scheduled_at) filter (where trigger = 'schedule'),
              max(executed_at) filter (where status = 'success'),
              (array_agg(jsonb_build_object(
                 'id', execution_id, 'job_id', job_id, 'job_uid', job_uid, 'run_id', id,
                 'status', status, 'http_status', http_status, 'duration_ms', duration_ms,
                 'error_message', error_message, 'attempt', attempt, 'trigger', trigger,
                 'executed_at', (extract(epoch from executed_at) * 1000)::bigint,
                 'scheduled_at', (extract(epoch from scheduled_at) * 1000)::bigint
               ) order by executed_at desc, execution_id desc))[1]
         from mine group by job_uid order by job_uid
       on conflict (job_uid) do update
         set last_schedule_time = greatest(h.last_schedule_time, excluded.last_schedule_time),
             last_success_time = greatest(h.last_success_time, excluded.last_success_time),
             last_execution = case
               when (excluded.last_execution ->> 'executed_at')::bigint
                    >= (h.last_execution ->> 'executed_at')::bigint
               then excluded.last_execution else h.last_execution end
     ), final as materialized (
       select job_uid, generation, bool_or(next = 'halted') as halted,
              bool_or(trigger = 'schedule') as scheduled,
              bool_or(trigger = 'schedule' and status = 'success') as succeeded
         from mine where next <> 'retry' group by job_uid, generation
     ), locked as materialized (
       select f.* from job_cursors c join final f using (job_uid)
        where (f.halted and c.generation = f.generation) or (f.scheduled and c.once = 'fired')
        order by c.job_uid for update of c
     ), decided as (
       update job_cursors c
          set version = c.version + 1,
              once = case when f.scheduled and c.once = 'fired'
                          then case when f.succeeded then 'completed' else 'failed' end
                          else c.once end,
              halted_generation = case when f.halted and c.generation = f.generation
                                       then f.generation else c.halted_generation end,
              startable = c.startable and not (f.halted and c.generation = f.generation)
         from locked f where c.job_uid = f.job_uid
       returning c.job_uid
     )
     select id, job_uid, job_uid in (select job_uid from decided) as decided from mine`,
    values: [
      column(({ run }) => run.id),
      column(({ run }) => run.claimToken),
      column(({ execution }) => execution.status),
      column(({ execution }) => execution.httpStatus),
      column(({ execution }) => Math.round(execution.durationMs)),
      column(({ execution }) => execution.errorMessage),
      column(({ execution }) => timestamp(execution.executedAt)),
      column(({ next }) => next),
      column((closing) => (closing.next === "retry" ? timestamp(closing.notBefore) : null)),
    ],
  });
  return {
    runs: new Map(rows.map((row) => [row.id, row.job_uid])),
    cursors: rows.flatMap((row) => (row.decided ? [row.job_uid] : [])),
  };
}

export interface Closed {
  /** Run id → job uid. */
  runs: Map<string, string>;
  cursors: string[];
}
