import type { Cursor } from "../domain/cursor.ts";
import { destinationKey } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { UnfinishedRun } from "../domain/run.ts";
import { applyChanges } from "./apply-changes.ts";
import { cancelSomeRuns, createJobCancellation } from "./cancel-jobs.ts";
import { liftHalt } from "./lift-halt.ts";
import { heldLocks } from "./held-locks.ts";
import { lockedJobs } from "./locked-runs.ts";
import { RUNS_CHANNEL } from "./notifications.ts";
import type { Pool, Queryable } from "./pool.ts";
import { CURSOR_COLUMNS, cursorOf, type CursorRow } from "./rows.ts";
import { notifyRunSql } from "./run-notifications.ts";

/**
 * Writes what the leader decides to PostgreSQL. Statements take whole batches as arrays, and rely on a pool whose
 * plans are fixed.
 */
export function createRunLedger({ pool }: { pool: Pool }): RunLedger {
  const ledger: RunLedger = {
    cursors: (jobUids) => readCursors(pool, jobUids),

    unfinished: async (jobUids) => {
      const { rows } = await pool.query<UnfinishedRow>(
        `select id, job_uid, scheduled_at, attempts, started_at is not null as started
           from runs
          where job_uid = any($1::uuid[]) and trigger = 'schedule'
          order by scheduled_at, id`,
        [jobUids],
      );
      const found = new Map<string, UnfinishedRun[]>();
      for (const [uid, theirs] of Map.groupBy(rows, (row) => row.job_uid))
        found.set(uid, theirs.map(unfinishedOf));
      return found;
    },

    apply: (changes) => applyChanges(pool, changes),

    locked: (jobUids, options) => heldLocks(pool, () => lockedJobs(pool, jobUids), options),

    orphans: async (known) => {
      const { rows } = await pool.query<{ job_uid: string }>(
        "select job_uid from job_cursors where deleted_at is null",
      );
      return rows.flatMap((row) => (known.has(row.job_uid) ? [] : [row.job_uid]));
    },

    undeleted: async (account, jobId) => {
      const { rows } = await pool.query<{ job_uid: string }>(
        `select job_uid from job_cursors
          where account = $1 and job_id = $2 and deleted_at is null`,
        [account, jobId],
      );
      return rows.map((row) => row.job_uid);
    },

    cancel: createJobCancellation({ pool }),

    cancelSome: (jobUids) => cancelSomeRuns(pool, jobUids),

    runNow: async (job, key) => {
      if (job.account === null) return false;
      // The share lock waits for an apply or cancel under way, so that no run is created after a deletion. The
      // leader must have taken up the generation and the account that the caller has seen: otherwise the run would
      // send what the job said before, or be refused as one of a deleted account. And no later generation: the caller
      // does not know whom that calls.
      const { rows } = await pool.query<{ found: boolean }>(
        `with cursor as materialized (
           select * from job_cursors
            where job_uid = $1 and deleted_at is null and account = $6 and generation = $5
              for share
         ), asked as (
           insert into manual_run_keys (job_uid, key) select job_uid, $2 from cursor
           on conflict do nothing returning job_uid
         ), created as (
           insert into runs
             (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
           -- Cut, because the columns round to milliseconds: rounded up, the run would not be due at once.
           select c.job_uid, c.account, c.job_id, c.generation, 'manual', $2,
                  date_trunc('milliseconds', clock_timestamp()),
                  date_trunc('milliseconds', clock_timestamp()), $3
             from cursor c join asked using (job_uid)
           on conflict (job_uid, trigger, key) do nothing returning not_before
         )
         select exists (select from cursor) as found,
                (select ${notifyRunSql("$4", "not_before")} from created) as told`,
        [
          job.uid,
          key,
          destinationKey(job.account, job.spec.target),
          RUNS_CHANNEL,
          job.generation,
          job.account,
        ],
      );
      return rows[0]?.found === true;
    },

    liftHalt: (job) => liftHalt({ ledger, job }),
  };
  return ledger;
}

interface UnfinishedRow {
  id: string;
  job_uid: string;
  scheduled_at: Instant;
  attempts: number;
  started: boolean;
}

function unfinishedOf({ id, scheduled_at, attempts, started }: UnfinishedRow): UnfinishedRun {
  return { id, scheduledAt: scheduled_at, attempts, started };
}

export async function readCursors(
  database: Queryable,
  jobUids: readonly string[],
): Promise<Map<string, Cursor>> {
  const { rows } = await database.query<CursorRow>(
    `select ${CURSOR_COLUMNS.join(", ")} from job_cursors where job_uid = any($1::uuid[])`,
    [jobUids],
  );
  return new Map(rows.map((row) => [row.job_uid, cursorOf(row)]));
}
