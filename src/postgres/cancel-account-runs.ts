import { byKey } from "./by-key.ts";
import { dropOfAll, dropUnstarted } from "./drop-runs.ts";
import { fixPlans, type Queryable } from "./pool.ts";
import { LOCK_NOT_AVAILABLE, sqlState } from "./sql-state.ts";

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
  await inPages(async (after) => {
    const page = [account, after, atATime];
    await lockBriefly(client, page);
    const { rows } = await client.query<{ uids: readonly string[]; last: string | null }>(
      `with ${PAGE}, ${mineOf("")}, stopped as (
         update job_cursors c set startable = false, version = version + 1
           from mine where ${byKey("c.job_uid", "mine.job_uid")}
         returning c.job_uid::text as uid
       )
       select array(select uid from stopped) as uids, (select max(job_id) from page) as last`,
      page,
    );
    const { uids = [], last = null } = rows[0] ?? {};
    await dropUnstarted(
      client,
      uids.map((uid) => dropOfAll(uid, "account_deleted")),
    );
    return last;
  });
}

/** SQL: cursors of account $1 after job $2, $3 of them. Those of jobs that are deleted have stopped already, and stay for a week. */
const PAGE = `page as materialized (
         select job_uid, job_id from job_cursors
          where account = $1 and job_id > $2 and deleted_at is null
          order by job_id fetch first $3 rows with ties
       )`;

/** SQL: those of the page, locked. */
const mineOf = (locked: "" | "skip locked"): string => `mine as materialized (
         select c.job_uid from job_cursors c join page on ${byKey("c.job_uid", "page.job_uid")}
          -- Said so that no index of it is one to look them up by: those have all of the account.
          where c.account is not distinct from $1 and c.deleted_at is null
          order by page.job_uid for update of c ${locked}
       )`;

/** Less than PostgreSQL waits, a second, before it looks whether there is a deadlock that it may end. */
const A_WHILE = "800ms";
/** Together longer than anybody waits for a lock. */
const WAITS = 8;

/**
 * The pages before are ours until the end, and whoever waits for one of them, as a leader, may have cursors of this one in
 * hand. If we waited for these as well, PostgreSQL would end one of us, and we have more to begin anew: so we wait
 * briefly, and again, and the other is found out, or gives up.
 */
async function lockBriefly(client: Queryable, page: readonly unknown[]): Promise<void> {
  for (let waits = 0; waits < WAITS; waits += 1) {
    const { rows } = await client.query<{ all: boolean; usual: string }>(
      `with ${PAGE}, ${mineOf("skip locked")}
       select (select count(*) from mine) = (select count(*) from page) as all,
              current_setting('lock_timeout') as usual`,
      [...page],
    );
    const [{ all, usual } = { all: false, usual: "0" }] = rows;
    if (all) return;
    await client.query(`savepoint waits; set local lock_timeout = '${A_WHILE}'`);
    try {
      await client.query(`with ${PAGE}, ${mineOf("")} select count(*) from mine`, [...page]);
      await client.query(`set local lock_timeout = '${usual}'; release savepoint waits`);
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
      await client.query("rollback to savepoint waits; release savepoint waits");
    }
  }
}

/** Deletes those that REST made, by their ids, for an account that is deleted. Resolves with how many. */
export async function deleteJobsMade(
  database: Queryable,
  account: string,
  atATime = AT_A_TIME,
): Promise<number> {
  let total = 0;
  await inPages(async (after) => {
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
    total += count;
    return last;
  });
  return total;
}

/** In the order of ids, which PostgreSQL knows: each page after the last id of the one before, until there is none. */
async function inPages(page: (after: string) => Promise<string | null>): Promise<void> {
  for (let after: string | null = ""; after !== null;) after = await page(after);
}
