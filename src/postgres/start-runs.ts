import { destinationKey } from "../domain/destination.ts";
import { isoUtc, SECOND } from "../domain/instant.ts";
import type { ClaimedRun } from "../domain/run.ts";
import { storedSpec } from "../domain/stored-spec.ts";
import { byKey } from "./by-key.ts";
import { HELD, UNCLAIMED } from "./claims.ts";
import { awaits, droppedAs } from "./drop-runs.ts";
import { notifyJobSql } from "./job-notifications.ts";
import { specWithoutBulk } from "./job-row.ts";
import { CURSORS_CHANNEL } from "./notifications.ts";
import type { Queryable } from "./pool.ts";
import { plainArray } from "./rows.ts";

/**
 * The last gate before bytes leave: commits `started` for claims that still hold and whose job still wants them,
 * judged on the cursor under the run's row lock. Pausing, editing and deleting write the same rows, so whichever
 * commits first decides. Runs that may not start any more are removed, and recorded as missed or decided again, or
 * moved to the current generation. `onPastDeadline` hears how many are missed because their starting deadline has
 * passed. Returns the ids that may be sent.
 */
export async function startRuns(
  database: Queryable,
  runs: readonly ClaimedRun[],
  onPastDeadline: (count: number) => void = () => undefined,
): Promise<Set<string>> {
  if (runs.length === 0) return new Set();
  // All statements lock runs in this order.
  const sorted = runs.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const { rows } = await database.query<{ id: string }>({
    name: "start_runs",
    text: `update runs r
          set started_at = clock_timestamp()
         from ${CLAIMS}, job_cursors c
        where ${STILL_HELD} and ${DUE} and ${byKey("c.job_uid", "r.job_uid")} and ${REASON} is null
       returning r.id`,
    values: claims(sorted),
  });
  const started = new Set(rows.map((row) => row.id));
  if (started.size < runs.length)
    await dropUnwanted(
      database,
      sorted.filter((run) => !started.has(run.id)),
      onPastDeadline,
    );
  return started;
}

/**
 * For runs that did not start: drops those that their job no longer wants; those that somebody else holds stay. The
 * cursor of a one-time job is settled together with its run (`droppedAs`). If that cursor is being written, both
 * stay for the next start: the writer locks runs after cursors, which is the other way round (docs/decisions/0023,
 * "refused" and "refused, busy"). A manual run that was never attempted moves to the current generation, as it would
 * have if it had been waiting at the time of the edit (`dropUnstarted`).
 */
async function dropUnwanted(
  database: Queryable,
  runs: readonly ClaimedRun[],
  onPastDeadline: (count: number) => void,
): Promise<void> {
  const { rows } = await database.query<UnwantedRow>({
    name: "drop_unwanted_runs",
    text: `with mine as materialized (
       select r.id, r.job_uid, r.account, r.trigger, r.generation, r.scheduled_at, r.replaced, r.attempts,
              i.start_by
         from runs r join ${CLAIMS} on ${STILL_HELD}
        order by i.id for update of r
     ), judged as materialized (
       select r.id, r.job_uid, ${REASON} as reason, c.version, c.generation,
              r.trigger = 'manual' and r.attempts = 0 as asked,
              r.trigger = 'schedule' and ${awaits("r")} is true as awaited
         from mine r left join job_cursors c on ${byKey("c.job_uid", "r.job_uid")}
     ), unwanted as materialized (
       select id, job_uid, version, reason, generation, asked and reason = 'superseded' as moves,
              awaited and reason <> 'deleted' as settles
         from judged where reason is not null
     ), free as materialized (
       select c.job_uid from job_cursors c
         join unwanted u on ${byKey("c.job_uid", "u.job_uid")} and c.version = u.version
        where u.settles for update of c skip locked
     ), dropped as (
       delete from runs r using unwanted u
        where ${byKey("r.id", "u.id")} and not u.moves
          and (not u.settles or u.job_uid in (select job_uid from free))
       returning r.account, r.job_id, r.job_uid, r.attempts, r.scheduled_at, u.reason, u.settles
     ), settled as (
       update job_cursors c set ${droppedAs("d")} from dropped d
        where ${byKey("c.job_uid", "d.job_uid")} and d.settles
       returning c.job_uid, d.reason <> 'account_deleted' or c.account <> d.account as told
     ), recorded as (
       insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select account, job_id, job_uid, min(scheduled_at), max(scheduled_at), count(*), reason
         from dropped where attempts = 0 and not settles group by account, job_id, job_uid, reason
       returning count, reason
     )
     -- The leader is told here: if this worker died first, nobody would decide the job again for long. Not told of the
     -- job's own deleted account: a leader that has not heard of the deletion would create the run again and again.
     select ${notifyJobSql("$5", "job_uid")}::text as told, 0 as late, null::uuid as id,
            null::int as generation, null::jsonb as spec
       from settled where told
     union all
     select null, count::int, null, null, null from recorded where reason = 'deadline'
     union all
     select null, 0, u.id, u.generation, ${specWithoutBulk("v.spec::jsonb")}
       from unwanted u left join job_revisions v
         on ${byKey("v.job_uid", "u.job_uid")} and v.generation = u.generation
      where u.moves`,
    values: [...claims(runs), CURSORS_CHANNEL],
  });
  const late = rows.reduce((sum, row) => sum + row.late, 0);
  if (late > 0) onPastDeadline(late);
  await moveOver(database, runs, rows);
}

/** With an id: a run that moves, and the current generation with its spec, of which each run has a copy. */
type UnwantedRow = { late: number } & (
  { id: string; generation: number; spec: unknown } | { id: null }
);

/** Moves runs to the current generation and its destination, except those that have been claimed anew meanwhile. */
async function moveOver(
  database: Queryable,
  runs: readonly ClaimedRun[],
  rows: readonly UnwantedRow[],
): Promise<void> {
  const byId = new Map(rows.flatMap((row) => (row.id === null ? [] : [[row.id, row] as const])));
  const moves = runs.flatMap((run) => {
    const to = byId.get(run.id);
    return to ? [{ run, ...to }] : [];
  });
  if (moves.length === 0) return;
  await database.query(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[])
         as i(id, token, generation, destination)
     ), mine as materialized (
       select i.* from runs r join input i on ${HELD}
        where r.started_at is null order by i.id for update of r
     )
     update runs r
        set generation = m.generation, destination = m.destination,
            ${UNCLAIMED}
       from mine m where ${byKey("r.id", "m.id")}`,
    [
      moves.map(({ run }) => run.id),
      moves.map(({ run }) => run.claimToken),
      moves.map(({ generation }) => generation),
      moves.map(({ run, spec }) => destinationKey(run.account, storedSpec(spec).target)),
    ],
  );
}

/** SQL: input `i`, from the parameters that `claims` makes. */
const CLAIMS = `unnest($1::uuid[], $2::uuid[], $3::int[], $4::timestamptz[])
  as i(id, token, generation, start_by)`;

const STILL_HELD = `${HELD}
  and r.generation = i.generation and r.started_at is null and r.lease_until > clock_timestamp()`;

/**
 * SQL: whether run `r` is due by PostgreSQL's clock. A worker's may be off by milliseconds, or by more after a
 * failover.
 */
export const DUE = "r.not_before <= clock_timestamp()";

/** SQL: why the job with cursor `c` no longer wants run `r`; null if it does. */
export const UNWANTED = `case
  when c.job_uid is null or c.deleted_at is not null then 'deleted'
  when c.account is null or r.account in (
    select id from accounts where deleted_at is not null
  ) then 'account_deleted'
  when r.replaced then 'overlap'
  when c.generation <> r.generation then 'superseded'
  when r.trigger = 'schedule' and not c.startable then 'paused'
end`;

/** SQL: the same, or that `start_by`, until which the run may start, is over. */
const REASON = `coalesce(${UNWANTED}, case when start_by < clock_timestamp() then 'deadline' end)`;

/**
 * SQL: whether the starting deadline of run `r` may be over: the run was prepared, and its time passed longer ago
 * than the shortest possible deadline.
 */
export const MAY_BE_TOO_LATE = `(r.trigger = 'schedule' and r.created_at < r.scheduled_at
  and r.not_before < clock_timestamp() - interval '1 second')`;

function claims(runs: readonly ClaimedRun[]): string[] {
  return [
    plainArray(runs.map((run) => run.id)),
    plainArray(runs.map((run) => run.claimToken)),
    plainArray(runs.map((run) => run.generation)),
    plainArray(runs.map(startBy)),
  ];
}

/**
 * Until when a run may start; null: no limit. Only prepared runs have one: perhaps no worker was there when their
 * time came. For a run that was created when it was due, or late, the starting deadline was checked then. A run
 * that an open circuit held up has its delivery deadline.
 */
function startBy(run: ClaimedRun): string | null {
  const { scheduledAt, spec } = run;
  const prepared = run.trigger === "schedule" && run.createdAt < scheduledAt && run.attempt === 1;
  if (spec.startingDeadlineSeconds === null || !prepared || run.notBefore > scheduledAt)
    return null;
  return isoUtc(scheduledAt + spec.startingDeadlineSeconds * SECOND);
}
