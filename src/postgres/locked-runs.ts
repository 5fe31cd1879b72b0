import type { ClaimedRun } from "../domain/run.ts";
import { byKey } from "./by-key.ts";
import type { Queryable } from "./pool.ts";
import { plainArray } from "./rows.ts";

/** Runs whose own row, or whose job's cursor, is locked now. Does not wait. */
export async function lockedRuns(
  database: Queryable,
  runs: readonly Pick<ClaimedRun, "id" | "jobUid">[],
): Promise<Set<string>> {
  const { rows } = await database.query<{ id: string }>(
    `with asked as materialized (
       select * from unnest($1::uuid[], $2::uuid[]) as i(id, job_uid)
     ), runs_there as materialized (
       select r.id from runs r join asked on ${byKey("r.id", "asked.id")}
     ), free_runs as materialized (
       select r.id from runs r join asked on ${byKey("r.id", "asked.id")} for update of r skip locked
     ), jobs as materialized (
       select distinct job_uid from asked
     ), cursors_there as materialized (
       select c.job_uid from job_cursors c join jobs on ${byKey("c.job_uid", "jobs.job_uid")}
     ), free_cursors as materialized (
       select c.job_uid from job_cursors c join jobs on ${byKey("c.job_uid", "jobs.job_uid")}
          for no key update of c skip locked
     )
     select id from asked
      where id in (select id from runs_there except select id from free_runs)
         or job_uid in (select job_uid from cursors_there except select job_uid from free_cursors)`,
    [plainArray(runs.map(({ id }) => id)), plainArray(runs.map(({ jobUid }) => jobUid))],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Jobs whose cursor, or one of whose runs, is locked now. Does not wait. */
export async function lockedJobs(
  database: Queryable,
  jobUids: readonly string[],
): Promise<Set<string>> {
  const { rows } = await database.query<{ job_uid: string }>(
    `with asked as materialized (
       select * from unnest($1::uuid[]) as i(job_uid)
     ), cursors_there as materialized (
       select c.job_uid from job_cursors c join asked on ${byKey("c.job_uid", "asked.job_uid")}
     ), free_cursors as materialized (
       select c.job_uid from job_cursors c join asked on ${byKey("c.job_uid", "asked.job_uid")}
          for update of c skip locked
     ), runs_there as materialized (
       select r.id, r.job_uid from runs r join asked on ${byKey("r.job_uid", "asked.job_uid")}
     ), free_runs as materialized (
       select r.id from runs r join asked on ${byKey("r.job_uid", "asked.job_uid")} for update of r skip locked
     )
     select job_uid from cursors_there where job_uid not in (select job_uid from free_cursors)
     union
     select job_uid from runs_there where id not in (select id from free_runs)`,
    [plainArray(jobUids)],
  );
  return new Set(rows.map(({ job_uid }) => job_uid));
}
