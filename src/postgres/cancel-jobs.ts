import { isoUtc } from "../domain/instant.ts";
import type { GoneJob } from "../domain/ports/run-ledger.ts";
import { compileSchedule } from "../domain/schedule.ts";
import { byKey } from "./by-key.ts";
import { dropAll } from "./drop-runs.ts";
import { createGroupCommit, type GroupCommit } from "../waiting/group-commit.ts";
import { transaction, type Pool } from "./pool.ts";

/**
 * `RunLedger.cancel`. Deliveries use the same pool, and a transaction holds a connection over several statements.
 * So an account that deletes its jobs by the hundred has one transaction under way, and what it asks for meanwhile
 * goes into the next. A lock that holds it up holds up no other account.
 */
export function createJobCancellation({ pool }: { pool: Pool }) {
  const byAccount = new Map<
    string,
    { cancels: GroupCommit<readonly GoneJob[], void>; callers: number }
  >();

  return async (jobs: readonly GoneJob[], account: string): Promise<void> => {
    if (jobs.length === 0) return;
    const group = byAccount.get(account) ?? {
      callers: 0,
      cancels: createGroupCommit<readonly GoneJob[], void>({
        commit: async (asked) => {
          await cancelJobs(pool, asked.flat());
          return asked.map(() => undefined);
        },
      }),
    };
    byAccount.set(account, group);
    group.callers += 1;
    try {
      await group.cancels.submit(jobs);
    } finally {
      group.callers -= 1;
      if (group.callers === 0) byAccount.delete(account);
    }
  };
}

/** `RunLedger.cancelSome`. */
export function cancelSomeRuns(pool: Pool, jobUids: readonly string[]): Promise<boolean> {
  return cancelJobs(
    pool,
    jobUids.map((uid) => ({ uid })),
    { some: true },
  );
}

/** False: as `dropAll` says. */
async function cancelJobs(
  pool: Pool,
  jobs: readonly GoneJob[],
  options?: { some: boolean },
): Promise<boolean> {
  const byUid = new Map(jobs.map((job) => [job.uid, job]));
  const gone = [...byUid.values()].sort((a, b) => (a.uid < b.uid ? -1 : 1));
  return transaction(pool, async (client) => {
    // A job that was deleted before a leader decided on it gets a cursor too: a leader that still has the job in memory
    // would otherwise find none and create its runs.
    await client.query(
      `with input as materialized (
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[])
           as i(uid, account, id, due_at)
       ), marked as (
         insert into job_cursors as c
           (job_uid, account, job_id, position, schedule_hash, generation, startable, once, deleted_at)
         select uid, account, coalesce(id, ''), clock_timestamp(), '', 0, false, 'armed', clock_timestamp()
           from input
         on conflict (job_uid) do update
           set deleted_at = excluded.deleted_at, startable = false, version = c.version + 1
           where c.deleted_at is null
         returning c.job_uid, c.generation = 0 as unseen
       )
       insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select i.account, i.id, i.uid, i.due_at, i.due_at, 1, 'deleted'
         from input i join marked m on ${byKey("m.job_uid", "i.uid")}
        where m.unseen and i.account is not null and i.due_at <= clock_timestamp()`,
      [
        gone.map(({ uid }) => uid),
        gone.map(({ account }) => account ?? null),
        gone.map(({ id }) => id ?? null),
        gone.map(dueAt),
      ],
    );
    return dropAll(
      client,
      gone.map(({ uid }) => uid),
      "deleted",
      options,
    );
  });
}

/**
 * When a one-time job would have run, for the trace of one that no leader has seen; null if it would not have. Fire
 * times of a cron job that nobody decided are not recorded.
 */
function dueAt({ spec }: GoneJob): string | null {
  if (spec?.schedule.kind !== "once" || spec.suspend) return null;
  return compileSchedule(spec.schedule).ok ? isoUtc(spec.schedule.at) : null;
}
