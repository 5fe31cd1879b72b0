import { dropOfAll, dropUnstarted } from "./drop-runs.ts";
import { createGroupCommit, type GroupCommit } from "./group-commit.ts";
import { transaction, type Pool } from "./pool.ts";

/**
 * `RunLedger.cancel`. Deliveries use the same pool, and a transaction keeps its connection from one statement to
 * the next: of an account that deletes its jobs by the hundred, one is under way, and what is asked for meanwhile
 * goes into the next. What holds it up, holds up nobody else.
 */
export function createJobCancellation({ pool }: { pool: Pool }) {
  const byAccount = new Map<
    string,
    { cancels: GroupCommit<readonly string[], void>; asked: number }
  >();

  return async (jobUids: readonly string[], account?: string): Promise<void> => {
    if (jobUids.length === 0) return;
    if (account === undefined) return cancelJobs(pool, jobUids);
    const mine = byAccount.get(account) ?? {
      asked: 0,
      cancels: createGroupCommit<readonly string[], void>({
        commit: async (asked) => {
          await cancelJobs(pool, asked.flat());
          return asked.map(() => undefined);
        },
      }),
    };
    byAccount.set(account, mine);
    mine.asked += 1;
    try {
      await mine.cancels.submit(jobUids);
    } finally {
      mine.asked -= 1;
      if (mine.asked === 0) byAccount.delete(account);
    }
  };
}

async function cancelJobs(pool: Pool, jobUids: readonly string[]): Promise<void> {
  const uids = [...new Set(jobUids)].sort();
  await transaction(pool, async (client) => {
    // A job deleted before the leader ever saw it gets a cursor too: a leader that still holds the
    // job in memory would otherwise find none and create its runs.
    await client.query(
      `insert into job_cursors as c
         (job_uid, job_id, position, schedule_hash, generation, startable, once, deleted_at)
       select uid, '', clock_timestamp(), '', 0, false, 'armed', clock_timestamp()
         from unnest($1::uuid[]) as uid
       on conflict (job_uid) do update
         set deleted_at = excluded.deleted_at, startable = false, version = c.version + 1
         where c.deleted_at is null`,
      [uids],
    );
    await dropUnstarted(
      client,
      uids.map((jobUid) => dropOfAll(jobUid, "deleted")),
    );
  });
}
