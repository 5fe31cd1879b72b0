import type { ClaimedRun } from "../domain/run.ts";
import { byKey } from "./by-key.ts";
import { DROPPED_AT_ONCE } from "./drop-runs.ts";
import type { Queryable } from "./pool.ts";
import { plainArray } from "./rows.ts";

/**
 * SQL: whether what `asked` names exists: a row that is gone is not found free either, although nobody locks it. Only
 * "is true" keeps this from becoming a join, which could be one with all there are.
 */
const THERE = {
  run: `exists (select from runs r where ${byKey("r.id", "asked.id")}) is true`,
  cursor: `exists (select from job_cursors c where ${byKey("c.job_uid", "asked.job_uid")}) is true`,
};

/** Runs whose own row, or whose job's cursor, is locked now. Does not wait. */
export async function lockedRuns(
  database: Queryable,
  runs: readonly Pick<ClaimedRun, "id" | "jobUid">[],
): Promise<Set<string>> {
  if (runs.length === 0) return new Set();
  const { rows } = await database.query<{ id: string }>(
    `with asked as materialized (
       select * from unnest($1::uuid[], $2::uuid[]) as i(id, job_uid)
     ), free_runs as materialized (
       select r.id from runs r join asked on ${byKey("r.id", "asked.id")} for update of r skip locked
     ), jobs as materialized (
       select distinct job_uid from asked
     ), free_cursors as materialized (
       select c.job_uid from job_cursors c join jobs on ${byKey("c.job_uid", "jobs.job_uid")}
          for no key update of c skip locked
     )
     select id from asked
      where (id not in (select id from free_runs) and ${THERE.run})
         or (job_uid not in (select job_uid from free_cursors) and ${THERE.cursor})`,
    [plainArray(runs.map(({ id }) => id)), plainArray(runs.map(({ jobUid }) => jobUid))],
  );
  return new Set(rows.map(({ id }) => id));
}

/**
 * Jobs whose cursor, or one of whose runs, is locked now. Does not wait. A look locks the runs itself for a moment, and
 * takes time for each: so it leaves out those of a job whose cursor is locked, and of a million runs by hand those that
 * one statement would not get to.
 */
export async function lockedJobs(
  database: Queryable,
  jobUids: readonly string[],
): Promise<Set<string>> {
  const { rows } = await database.query<{ job_uid: string }>(
    `with asked as materialized (
       select * from unnest($1::uuid[]) as i(job_uid)
     ), free_cursors as materialized (
       select c.job_uid from job_cursors c join asked on ${byKey("c.job_uid", "asked.job_uid")}
          for update of c skip locked
     ), held_cursors as materialized (
       select job_uid from asked
        where job_uid not in (select job_uid from free_cursors) and ${THERE.cursor}
     ), runs_there as materialized (
       select r.id, asked.job_uid from asked cross join lateral (
         select id from runs where ${byKey("job_uid", "asked.job_uid")} and trigger = 'schedule'
         union all
         (select id from runs
           where ${byKey("job_uid", "asked.job_uid")} and trigger = 'manual' and started_at is null
           limit ${DROPPED_AT_ONCE})
       ) r
        where asked.job_uid not in (select job_uid from held_cursors)
     ), free_runs as materialized (
       select r.id, r.job_uid from runs r join runs_there on ${byKey("r.id", "runs_there.id")}
          for update of r skip locked
     )
     select job_uid from held_cursors
     union
     -- Not "not in": the planner expects so many that it would compare each with each.
     select job_uid from (table runs_there except table free_runs) as held_runs`,
    [plainArray(jobUids)],
  );
  return new Set(rows.map(({ job_uid }) => job_uid));
}
