import { isoUtc } from "../domain/instant.ts";
import type { Closing } from "../domain/ports/run-queue.ts";
import { byKey } from "./by-key.ts";
import { awaits } from "./drop-runs.ts";
import { ensureExecutionMonths, lacksPartition } from "./partitions.ts";
import type { Queryable } from "./pool.ts";
import { EXECUTION_COLUMNS, plainArray } from "./rows.ts";
import { DEADLOCK, sqlState } from "./sql-state.ts";

/**
 * Records attempts and finishes or re-queues their runs, comparing claim tokens. Tells after each statement,
 * whatever becomes of the next, of the runs that were still held and the jobs whose cursor was written. A
 * one-time's final outcome and a halt go to the cursor, whose version rises: a leader that decides on the old
 * state loses its compare-and-set and looks again.
 */
export async function closeRuns(
  database: Queryable,
  closings: readonly Closing[],
  onClosed: (closed: Closed) => void,
): Promise<void> {
  // What ends and what is tried again apart: in one statement, each kind would be locked in its own order.
  const close = async (kind: typeof ENDED, some: readonly Closing[]) => {
    const closed: Closed = { runs: new Map(), cursors: [] };
    for (const { id, job_uid } of await closeHeld(database, kind, some))
      if (id === null) closed.cursors.push(job_uid);
      else closed.runs.set(id, job_uid);
    onClosed(closed);
    return closed.runs;
  };
  await close(
    ENDED,
    closings.filter(({ next }) => next !== "retry"),
  );
  const retries = closings.filter(({ next }) => next === "retry");
  const retried = await close(RETRIED, retries);
  // A run can be replaced while its retry waits for the row: it has not been taken then, and ends now,
  // unless it is somebody else's.
  await close(
    ENDED,
    retries.filter(({ run }) => !retried.has(run.id)),
  );
}

/** Outcomes are written behind: an older attempt's may come after a newer one's. */
function newer(column: string): string {
  return `${column} = case when excluded.executed_at >= h.executed_at then excluded.${column} else h.${column} end`;
}

/** Of several outcomes at once, that of the cursor's generation: behind a store that was restored it is not the last. */
const OUTCOME = "coalesce(array_position(f.scheduled, c.generation), 1)";

/** Whether the outcome is the one-time job's. */
const SETTLES = `(f.scheduled is not null and ${awaits("f", `f.scheduled[${OUTCOME}]`)})`;

const HALTED = "(c.generation = any(f.halted) is true)";

/** A run that was still held; without an id: a job whose cursor was written. */
interface ClosedRow {
  id: string | null;
  job_uid: string;
}

/** Of run `r` and its input `i`. */
const HELD = `${byKey("r.id", "i.id")} and r.claim_token = i.token`;
const ATTEMPTED = `r.id, r.account, r.job_id, r.job_uid, r.generation, r.trigger, r.scheduled_at,
  i.one_time, i.status, i.http_status, i.duration_ms, i.error_message, i.executed_at, uuidv7() as execution_id`;

/** Runs that are over: their rows go. */
const ENDED = {
  name: "close_runs",
  mine: `delete from runs r using input i
        where ${HELD} and (i.next <> 'retry' or r.replaced)
       returning ${ATTEMPTED}, r.attempts + 1 as attempt,
                 case i.next when 'retry' then 'finished' else i.next end as next`,
};

/** Runs that are tried again. */
const RETRIED = {
  name: "retry_runs",
  mine: `update runs r
          set attempts = r.attempts + 1, not_before = i.retry_at, claim_token = null, worker = null,
              lease_until = null, started_at = null
         from input i
        where ${HELD} and i.next = 'retry' and not r.replaced
       returning ${ATTEMPTED}, r.attempts as attempt, i.next`,
};

/** Of `MOVED_TEXT`, which is no boolean. */
const MOVED = "22P02";
/** What PostgreSQL's log says as well. */
const MOVED_TEXT = "a cursor moved while it was judged: it is judged again";
/** Whoever moves a cursor, or goes on after a deadlock, has got further: it need not be many. */
const TRIES = 8;

/** One statement is one transaction, and one round trip: what was wrong with it is put right, and it is said again. */
async function closeHeld(
  database: Queryable,
  kind: { name: string; mine: string },
  closings: readonly Closing[],
): Promise<ClosedRow[]> {
  if (closings.length === 0) return [];
  for (let tries = 1; ; tries += 1) {
    try {
      return await closeOnce(database, kind, closings);
    } catch (error) {
      const state = sqlState(error);
      if (tries === TRIES) throw error;
      // The month's partition can be missing when no retention task ran for months.
      if (lacksPartition(error, "executions"))
        await ensureExecutionMonths(
          database,
          closings.map(({ execution }) => execution.executedAt),
        );
      else if (state !== DEADLOCK && state !== MOVED) throw error;
    }
  }
}

/**
 * Each step starts at the rows of the one before. A cursor is judged together with the runs that there are,
 * as of one moment; who writes it in the meantime may just have made the run that it awaits. Locking it first
 * would not help: PostgreSQL reads the cursor anew then, but not the runs. So all of this is undone, by the
 * one means that SQL has without a function of our own: a value that cannot be cast.
 */
async function closeOnce(
  database: Queryable,
  { name, mine }: { name: string; mine: string },
  closings: readonly Closing[],
): Promise<ClosedRow[]> {
  // Everybody locks runs in this order.
  const sorted = closings.toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
  const column = (of: (closing: Closing) => string | number | null) => plainArray(sorted.map(of));
  const { rows } = await database.query<ClosedRow>({
    name,
    text: `with input as (
       select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::text[],
                            $7::timestamptz[], $8::text[], $9::timestamptz[], $10::boolean[])
         as i(id, token, status, http_status, duration_ms, error_message, executed_at, next, retry_at,
              one_time)
     ), mine as (
       ${mine}
     ), executed as (
       insert into executions
         (id, account, job_id, job_uid, run_id, status, http_status, duration_ms, error_message,
          executed_at, attempt, trigger, scheduled_at)
       select execution_id, account, job_id, job_uid, id, status, http_status, duration_ms,
              error_message, executed_at, attempt, trigger, scheduled_at
         from mine
     ), counted as (
       insert into execution_counts as c (account, hour, status, slot, entries)
       select account, date_trunc('hour', executed_at), status, pg_backend_pid() % 16, count(*)
         from mine group by 1, 2, 3 order by 1, 2, 3
       on conflict (account, hour, status, slot) do update set entries = c.entries + excluded.entries
     ), remembered as (
       insert into job_history as h
         (last_schedule_time, last_success_time, ${EXECUTION_COLUMNS.join(", ")})
       select distinct on (job_uid)
              max(scheduled_at) filter (where trigger = 'schedule') over job,
              max(executed_at) filter (where status = 'success') over job,
              execution_id, job_id, job_uid, id, status, http_status, duration_ms, error_message,
              executed_at, attempt, trigger, scheduled_at
         from mine window job as (partition by job_uid)
        order by job_uid, executed_at desc, execution_id desc
       on conflict (job_uid) do update
         set last_schedule_time = greatest(h.last_schedule_time, excluded.last_schedule_time),
             last_success_time = greatest(h.last_success_time, excluded.last_success_time),
             ${EXECUTION_COLUMNS.filter((column) => column !== "job_uid")
               .map(newer)
               .join(", ")}
     ), final as materialized (
       select job_uid, array_agg(generation) filter (where next = 'halted') as halted,
              array_agg(generation order by generation desc) filter (where trigger = 'schedule') as scheduled,
              bool_or(one_time) filter (where trigger = 'schedule') as one_time,
              array_agg(status order by generation desc) filter (where trigger = 'schedule') as statuses
         from mine where next <> 'retry' group by job_uid order by job_uid
     ), judged as materialized (
       select c.job_uid, c.version, f.statuses[${OUTCOME}] as status, ${HALTED} as halted, ${SETTLES} as settles
         from final f join job_cursors c on ${byKey("c.job_uid", "f.job_uid")}
        where ${HALTED} or ${SETTLES} or f.one_time
     ), unmoved as materialized (
       -- A one-time that has been given another time: while its run ends, it may be put back to the time of that run.
       select c.job_uid
         from judged j join job_cursors c
           on ${byKey("c.job_uid", "j.job_uid")} and c.version = j.version
        where not j.halted and not j.settles for share of c
     ), decided as (
       update job_cursors c
          set version = c.version + 1,
              once = case when j.settles then case j.status when 'success' then 'completed' else 'failed' end
                          else c.once end,
              halted_generation = case when j.halted then c.generation else c.halted_generation end,
              startable = c.startable and not j.halted
         from judged j
        where ${byKey("c.job_uid", "j.job_uid")} and c.version = j.version and (j.halted or j.settles)
       returning c.job_uid
     )
     -- One after the other: asked of each run, all that were decided would be read for each of them.
     select id, job_uid from mine
      where case (select count(*) from judged)
                 when (select count(*) from decided) + (select count(*) from unmoved) then 'true'
                 else '${MOVED_TEXT}' end::boolean
     union all
     select null, job_uid from decided`,
    values: [
      column(({ run }) => run.id),
      column(({ run }) => run.claimToken),
      column(({ execution }) => execution.status),
      column(({ execution }) => execution.httpStatus),
      column(({ execution }) => Math.round(execution.durationMs)),
      sorted.map(({ execution }) => execution.errorMessage),
      column(({ execution }) => isoUtc(execution.executedAt)),
      column(({ next }) => next),
      column((closing) => (closing.next === "retry" ? isoUtc(closing.notBefore) : null)),
      column(({ run }) => String(run.spec.schedule.kind === "once")),
    ],
  });
  return rows;
}

export interface Closed {
  /** Run id → job uid. */
  runs: Map<string, string>;
  cursors: string[];
}
