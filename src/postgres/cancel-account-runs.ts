import { byKey } from "./by-key.ts";
import { dropAll } from "./drop-runs.ts";
import { fixPlans, type Queryable } from "./pool.ts";

/** Jobs at a time: one statement has not the time for all jobs of an account, which may be a million. */
const AT_A_TIME = 5_000;

/**
 * For the transaction that marks an account deleted: stops its cursors, drops and records its unstarted runs, and
 * deletes the jobs in this database, all of which REST made. A run that is created meanwhile is refused at
 * its start, which checks the account. A one-time job may run for the account that its namespace gets next
 * (docs/decisions/0023, "account deleted"). The leader is not told: it sees anyway that these jobs lose their account.
 */
export async function cancelAccountRuns(
  client: Queryable,
  account: string,
  atATime = AT_A_TIME,
): Promise<void> {
  // Jobs and runs must be looked up one by one, whatever the statistics say: they are often of an empty queue.
  await fixPlans(client);
  await deleteStoredJobs(client, account, atATime);
  // In the order in which all statements lock cursors. Without those of deleted jobs, which have stopped already
  // and are kept for a week.
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
          -- Not "=": the planner must not use an index by account, which has all cursors of the account.
          where c.account is not distinct from $1 and c.deleted_at is null
          order by page.job_uid for update of c
       )
       update job_cursors c set startable = false, version = version + 1
         from mine where ${byKey("c.job_uid", "mine.job_uid")}
       returning c.job_uid`,
      [account, page.rows.map((row) => row.job_uid)],
    );
    await dropAll(
      client,
      rows.map((row) => row.job_uid),
      "account_deleted",
    );
  }
  await client.query("close cursors_of_account");
}

/** Deletes the jobs of an account that are in this database and not in Kubernetes. Resolves with how many. */
export async function deleteStoredJobs(
  database: Queryable,
  account: string,
  atATime = AT_A_TIME,
): Promise<number> {
  let total = 0;
  for (let after = ""; ;) {
    const { rows } = await database.query<{ count: number; last: string | null }>(
      `with page as materialized (
         select uid, id from jobs
          where account = $1 and id > $2 and deleted_at is null
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
