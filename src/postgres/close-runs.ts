import { isoUtc } from "../domain/instant.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Closing } from "../domain/ports/run-queue.ts";
import { byKey } from "./by-key.ts";
import { HELD, UNCLAIMED } from "./claims.ts";
import { ONCE_AT } from "./drop-runs.ts";
import { sqlAssertion, ASSERTION_FAILED } from "./sql-assertion.ts";
import { ensureMonths, lacksPartition } from "./partitions.ts";
import type { Queryable } from "./pool.ts";
import { EXECUTION_COLUMNS, LAST_EXECUTION, plainArray } from "./rows.ts";
import { DEADLOCK, sqlState } from "./sql-state.ts";
import { UNWANTED } from "./start-runs.ts";

/**
 * Records attempts and finishes or re-queues their runs, comparing claim tokens. After each statement, whatever
 * becomes of the next, `onClosed` hears of the runs that were still held, and of the jobs whose cursor has a new
 * version. The cursor gets the last execution, a one-time job's final outcome, and a halt. The last two raise its
 * version: a leader that decides on the old state loses its compare-and-set and looks again.
 */
export async function closeRuns(
  database: Queryable,
  closings: readonly Closing[],
  onClosed: (closed: Closed) => void,
): Promise<void> {
  // Separate statements for ended and retried runs: one statement would lock each kind in an order of its own.
  const close = async (kind: typeof ENDED, some: readonly Closing[]) => {
    const closed = await closeHeld(database, kind, some);
    onClosed(closed);
    return closed.runs;
  };
  await close(
    ENDED,
    closings.filter(({ next }) => next !== "retry"),
  );
  const retries = closings.filter(({ next }) => next === "retry");
  const retried = await close(RETRIED, retries);
  // The other retries are of jobs that were changed, paused or deleted during the attempt, or of replaced runs
  // (docs/decisions/0023, "last try"). They would never start, and would count as unfinished until then. They end now,
  // unless somebody else has claimed them.
  await close(
    ENDED,
    retries
      .filter(({ run }) => !retried.has(run.id))
      .map(({ run, execution }) => ({ run, execution, next: "finished" })),
  );
}

/**
 * SQL: the last execution for cursor `c`. That of job `j` may be older, because outcomes are written with a delay; or
 * it belongs to the account that the job had before, and is not for its present one to see.
 */
const REMEMBERED = Object.entries(LAST_EXECUTION).map(
  ([column, here]) =>
    `${here} = case when j.executed_at < c.last_executed_at or j.account <> c.account
                    then c.${here} else j.${column} end`,
);

/** SQL: whether this is the final outcome of a fire time. */
const FINAL = "trigger = 'schedule' and next <> 'retry'";

/**
 * SQL: index of the outcome of `f` that its one-time job awaits; null: none of them. The rule is that of `awaits`
 * (docs/decisions/0023, "outcome" and "not awaited").
 */
const AWAITED = `case when c.once = 'fired' then
  coalesce(array_position(f.final, c.generation), array_position(f.times, ${ONCE_AT})) end`;

const HALTS = "(c.generation = any(f.halted) is true)";

/**
 * SQL: whether what is written for judged job `j` is right only if its cursor `c` still has the version that was
 * judged (docs/decisions/0023, "judged anew"). True for a halt and for a settled one-time job. Also for one that awaits
 * a run by now: it may just have been put back to the time of this one, or have been a cron job. And for a retry:
 * somebody who changes the job meanwhile does not see that a run waits, and so does not drop it.
 */
const RELIES = `(j.halts or j.settles or j.retries or (j.final is not null and c.once = 'fired'))`;

/** Ids of the runs that were still held, and uids of the jobs whose cursor has a new version, between commas. */
interface ClosedRow {
  closed: string | null;
  risen: string | null;
}

/** Columns of `executions`, and of `mine` below. */
const columns = ["account", ...EXECUTION_COLUMNS].join(", ");

/** SQL: what is known of an attempt from run `r` and its input `i`. */
const ATTEMPTED = `uuidv7() as id, r.id as run_id, r.account, r.job_id, r.job_uid, r.generation, r.trigger,
  r.scheduled_at, i.status, i.http_status, i.duration_ms, i.error_message, i.executed_at`;

/** Runs that are over: their rows are deleted. */
const ENDED = {
  name: "close_runs",
  mine: `delete from runs r using input i where ${HELD}
       returning ${ATTEMPTED}, r.attempts + 1 as attempt, i.next`,
};

/** Runs that are tried again, where the job still wants them. */
const RETRIED = {
  name: "retry_runs",
  mine: `update runs r
          set attempts = r.attempts + 1, not_before = i.retry_at, retry_at = i.retry_at,
              ${UNCLAIMED}
         from input i, job_cursors c
        where ${HELD} and ${byKey("c.job_uid", "r.job_uid")} and ${UNWANTED} is null
       returning ${ATTEMPTED}, r.attempts as attempt, i.next`,
};

/** Few are enough: each time, the one who wrote the cursor, or won the deadlock, has got on. */
const TRIES = 8;

/** One statement is one transaction, and one round trip. If it fails for a passing reason, it is repeated. */
async function closeHeld(
  database: Queryable,
  kind: { name: string; mine: string },
  closings: readonly Closing[],
): Promise<Closed> {
  if (closings.length === 0) return { runs: new Map(), cursors: [] };
  for (let tries = 1; ; tries += 1) {
    try {
      return await closeOnce(database, kind, closings);
    } catch (error) {
      const state = sqlState(error);
      if (tries === TRIES)
        throw state === ASSERTION_FAILED
          ? new DependencyUnavailable("postgres", { cause: error })
          : error;
      // The month's partition can be missing when no retention task ran for months.
      if (lacksPartition(error, "executions"))
        await ensureMonths(
          database,
          "executions",
          closings.map(({ execution }) => execution.executedAt),
        );
      else if (state !== DEADLOCK && state !== ASSERTION_FAILED) throw error;
    }
  }
}

/**
 * Each step starts at the rows of the one before. A cursor is judged together with its runs, as of one moment;
 * somebody who writes the cursor meanwhile may just have created the run that it awaits. Locking the cursor first
 * would not help: PostgreSQL would then read the cursor anew, but not the runs. So if the version has changed, the
 * whole statement is undone. Where only the last execution is written, the version does not matter, and does not
 * rise.
 */
async function closeOnce(
  database: Queryable,
  { name, mine }: { name: string; mine: string },
  closings: readonly Closing[],
): Promise<Closed> {
  // All statements lock runs in this order.
  const sorted = closings.toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1));
  const column = (of: (closing: Closing) => string | number | null) => plainArray(sorted.map(of));
  const { rows } = await database.query<ClosedRow>({
    name,
    text: `with input as (
       select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::text[],
                            $7::timestamptz[], $8::text[], $9::timestamptz[])
         as i(id, token, status, http_status, duration_ms, error_message, executed_at, next, retry_at)
     ), mine as (
       ${mine}
     ), executed as (
       insert into executions (${columns})
       select ${columns} from mine
     ), counted as (
       insert into execution_counts as c (account, hour, status, slot, entries)
       select account, date_trunc('hour', executed_at), status, pg_backend_pid() % 16, count(*)
         from mine group by 1, 2, 3 order by 1, 2, 3
       on conflict (account, hour, status, slot) do update set entries = c.entries + excluded.entries
     ), folded as (
       -- Each job once, with its last execution, in the order in which all statements lock cursors.
       select distinct on (job_uid) job_uid, account, ${Object.keys(LAST_EXECUTION).join(", ")},
              max(scheduled_at) filter (where trigger = 'schedule') over job as schedule_time,
              max(executed_at) filter (where status = 'success') over job as success_time,
              array_agg(generation) filter (where next = 'halted') over job as halted,
              array_agg(generation) filter (where ${FINAL}) over job as final,
              array_agg(status) filter (where ${FINAL}) over job as outcomes,
              array_agg(scheduled_at) filter (where ${FINAL}) over job as times,
              bool_or(next = 'retry') over job as retries
         from mine
       window job as (partition by job_uid order by executed_at desc, id desc
                      rows between unbounded preceding and unbounded following)
        order by job_uid, executed_at desc, id desc
     ), judged as materialized (
       select f.*, c.version, f.outcomes[awaited] as outcome, ${HALTS} as halts, awaited is not null as settles
         from folded f join job_cursors c on ${byKey("c.job_uid", "f.job_uid")}
              cross join lateral (select ${AWAITED} as awaited) as a
     ), written as (
       update job_cursors c
          set ${REMEMBERED.join(", ")},
              last_schedule_time = greatest(c.last_schedule_time, j.schedule_time),
              last_success_time = greatest(c.last_success_time, j.success_time),
              version = c.version + (j.halts or j.settles)::int,
              once = case when j.settles then case j.outcome when 'success' then 'completed' else 'failed' end
                          else c.once end,
              halted_generation = case when j.halts then c.generation else c.halted_generation end,
              -- The moment from which nothing fires. It stays for a job that had been stopped before.
              halted_at = case when j.halts and c.startable then clock_timestamp() else c.halted_at end,
              startable = c.startable and not j.halts
         from judged j
        where ${byKey("c.job_uid", "j.job_uid")} and (c.version = j.version or not ${RELIES})
       returning c.job_uid, j.halts or j.settles as risen
     )
     -- One row: hundreds of rows would cost more to send and to read.
     select (select string_agg(run_id::text, ',') from mine) as closed,
            (select string_agg(job_uid::text, ',') from written where risen) as risen
      where ${sqlAssertion(
        "(select count(*) from judged) = (select count(*) from written)",
        "a cursor moved while it was judged: it is judged again",
      )}`,
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
    ],
  });
  const ids = new Set(rows[0]?.closed?.split(","));
  return {
    runs: new Map(
      closings.flatMap(({ run }) => (ids.has(run.id) ? [[run.id, run.jobUid] as const] : [])),
    ),
    cursors: rows[0]?.risen?.split(",") ?? [],
  };
}

export interface Closed {
  /** Run id → job uid. */
  runs: Map<string, string>;
  cursors: string[];
}
