import { byKey } from "./by-key.ts";
import { dropOfAll, dropUnstarted } from "./drop-runs.ts";
import { fixPlans, type Queryable } from "./pool.ts";

/** Jobs at a time: all of an account, perhaps a million, are more than a statement has time for. */
const AT_A_TIME = 5_000;

/**
 * For the transaction that marks an account deleted: its cursors stop, its unstarted runs go and are
 * recorded, and so do the jobs of this database that REST made, by their ids. A run that is created
 * meanwhile is refused at its start, which looks at the account. A one-time that was not attempted stays to
 * come, for the account that the namespace may get: nobody is told of that, as the leader sees these jobs
 * lose theirs.
 */
export async function cancelAccountRuns(
  client: Queryable,
  account: string,
  atATime = AT_A_TIME,
): Promise<void> {
  // Its jobs and runs are looked up one by one, whatever statistics say about a queue that mostly is empty.
  await fixPlans(client);
  await deleteJobsMade(client, account, atATime);
  // In the order in which everybody locks cursors. Those of jobs that are deleted have stopped already, and stay for a week.
  await client.query(
    `declare cursors_of_account no scroll cursor for
       select job_uid from job_cursors where account = $1 and deleted_at is null order by job_uid`,
    [account],
  );
  for (;;) {
    const page = await client.query<{ job_uid: string }>(
      `fetch ${atATime} from cursors_of_account`,
    );
    if (page.rows.length === 0) break;
    const { rows } = await client.query<{ job_uid: string }>(
      `with mine as materialized (
         select c.job_uid from unnest($2::uuid[]) as page(job_uid)
           join job_cursors c on ${byKey("c.job_uid", "page.job_uid")}
          -- Said so that no index of it is one to look them up by: those have all of the account.
          where c.account is not distinct from $1 and c.deleted_at is null
          order by page.job_uid for update of c
       )
       update job_cursors c set startable = false, version = version + 1
         from mine where ${byKey("c.job_uid", "mine.job_uid")}
       returning c.job_uid`,
      [account, page.rows.map((row) => row.job_uid)],
    );
    await dropUnstarted(
      client,
      rows.map((row) => dropOfAll(row.job_uid, "account_deleted")),
    );
  }
  await client.query("close cursors_of_account");
}

/** Deletes those that REST made, by their ids, for an account that is deleted. Resolves with how many. */
export async function deleteJobsMade(
  database: Queryable,
  account: string,
  atATime = AT_A_TIME,
): Promise<number> {
  let total = 0;
  for (let after = ""; ;) {
    const { rows } = await database.query<{ count: number; last: string | null }>(
      `with page as materialized (
         select uid, id from jobs
          where account = $1 and id > $2 and id like 'job-%' and deleted_at is null
          order by id limit $3 for update
       ), gone as (
         update jobs j set deleted_at = clock_timestamp(), version = version + 1,
                           changed_xid = pg_current_xact_id()
           from page where ${byKey("j.uid", "page.uid")}
       )
       select count(*) as count, max(id) as last from page`,
      [account, after, atATime],
    );
    const { count = 0, last = null } = rows[0] ?? {};
    if (last === null) return total;
    total += count;
    after = last;
  }
}
