import { dropOfAll, dropUnstarted } from "./drop-runs.ts";
import { fixPlans, type Queryable } from "./pool.ts";

/**
 * For the transaction that marks an account deleted: its cursors stop, its unstarted runs go and are
 * recorded, and so do the jobs of this database that REST made, by their ids. A run that is created
 * meanwhile is refused at its start, which looks at the account. A one-time that was not attempted stays to
 * come, for the account that the namespace may get: nobody is told of that, as the leader sees these jobs
 * lose theirs.
 */
export async function cancelAccountRuns(client: Queryable, account: string): Promise<void> {
  await client.query(
    `update jobs set deleted_at = clock_timestamp(), version = version + 1,
                     changed_xid = pg_current_xact_id()
      where account = $1 and id like 'job-%' and deleted_at is null`,
    [account],
  );
  // Those of jobs that are deleted have stopped already, and stay for a week: there may be more than a statement has time for.
  const { rows } = await client.query<{ job_uid: string }>(
    `update job_cursors c set startable = false, version = version + 1
       from (select job_uid from job_cursors where account = $1 and deleted_at is null
              order by job_uid for update) as mine
      where c.job_uid = mine.job_uid returning c.job_uid`,
    [account],
  );
  // Its runs are looked up one by one, whatever statistics say about a queue that mostly is empty.
  await fixPlans(client);
  await dropUnstarted(
    client,
    rows.map((row) => dropOfAll(row.job_uid, "account_deleted")),
  );
}
