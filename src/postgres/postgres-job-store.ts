import { InvalidInput } from "../domain/findings.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import type { Timers } from "../domain/ports/clock.ts";
import {
  JobExists,
  JobNotFound,
  VersionConflict,
  type JobStore,
} from "../domain/ports/job-store.ts";
import { UNREADABLE } from "../domain/stored-spec.ts";
import { createGroupCommit } from "../waiting/group-commit.ts";
import { POSITION, positionOf, positionText, type PositionRow } from "./job-position.ts";
import { watchJobs } from "./job-watch.ts";
import { jobOf, SPECS_AT_A_TIME, specWithoutBulk, type JobRow } from "./job-row.ts";
import { createJobNotifier } from "./job-notifications.ts";
import { JOBS_CHANNEL, type Notifications } from "./notifications.ts";
import type { Pool } from "./pool.ts";
import { isRowFault } from "./sql-state.ts";
import { unknownAccount } from "./unknown-account.ts";

/** Jobs of one page: one may have 256 KiB. */
const MOST_PER_PAGE = 100;

const WITHOUT_BULK = `uid, account, id, generation, version, created_at, deleted_at,
  ${specWithoutBulk("spec")} as spec`;

/**
 * Jobs in a PostgreSQL table: the store of standalone, and of processes without a cluster. Nothing else manages them, so
 * no JobOwned.
 */
export function createPostgresJobStore(options: {
  pool: Pool;
  notifications: Notifications;
  timers: Timers;
}): JobStore {
  const { pool, notifications, timers } = options;
  const notifier = createJobNotifier({ database: pool });
  const creations = createGroupCommit<NewJob, CreatedRow | undefined>({
    commit: (jobs) => insertJobs(pool, jobs),
    maxSize: SPECS_AT_A_TIME,
    sizeOf: ({ spec }) => spec.length,
    isRowFault,
  });

  function tellOf({ uid }: Pick<Job, "uid">): void {
    notifier.notify(JOBS_CHANNEL, [uid]);
  }

  /** False: it is deleted already, or does not have version `atVersion`. Null: whichever version it has. */
  async function markDeleted(job: Pick<Job, "uid">, atVersion: string | null): Promise<boolean> {
    const { rowCount } = await pool.query(
      `update jobs set deleted_at = clock_timestamp(), version = version + 1,
                       changed_xid = pg_current_xact_id()
        where uid = $1 and version = coalesce($2, version) and deleted_at is null`,
      [job.uid, atVersion],
    );
    if (rowCount === 0) return false;
    tellOf(job);
    return true;
  }

  return {
    create: async ({ account, id, spec }) => {
      const row = await creations.submit({ account, id, spec: JSON.stringify(spec) });
      if (row === undefined) {
        if (await isDeleted(pool, account)) throw unknownAccount(account);
        throw new JobExists(`the account already has a job ${id}`);
      }
      tellOf(row);
      return jobOf({ ...row, spec });
    },

    get: async (account, id) => {
      const { rows } = await pool.query<JobRow>(
        "select * from jobs where account = $1 and id = $2 and deleted_at is null",
        [account, id],
      );
      return rows[0] && jobOf(rows[0]);
    },

    list: async ({ account, limit: wanted, continue: token }) => {
      const limit = Math.min(wanted, MOST_PER_PAGE);
      const after = token === undefined ? undefined : pageOf(token);
      const values: unknown[] = [limit + 1];
      const parameter = (value: unknown) => `$${values.push(value)}`;
      const columns = account === undefined ? "*" : WITHOUT_BULK;
      const ofAccount = account === undefined ? "" : `and account = ${parameter(account)}`;
      const behind =
        after === undefined
          ? ""
          : `and (created_at, id, uid) > (${parameter(new Date(after.createdAt))}::timestamptz, ${parameter(after.id)}, ${parameter(after.uid)}::uuid)`;
      const { rows } = await pool.query<JobRow & PositionRow>(
        `select ${POSITION}, j.*
           from (select) as one
           left join (select ${columns} from jobs where deleted_at is null ${ofAccount} ${behind}
                       order by created_at, id, uid limit $1) as j on true
          order by created_at, id, uid`,
        values,
      );
      // That of the first page: a watch then begins before everything that commits while the other pages are read.
      const position = after?.position ?? positionText(positionOf(rows));
      const found = rows.filter(({ uid }) => uid !== null);
      const jobs = found.slice(0, limit).map(jobOf);
      const last = jobs.at(-1);
      return found.length > limit && last !== undefined
        ? { jobs, position, continue: tokenOf(last, position) }
        : { jobs, position };
    },

    update: async (job, spec) => {
      // What cannot be read would be lost.
      if (job.spec.refusal === UNREADABLE) throw new InvalidInput([UNREADABLE]);
      const { rows } = await pool.query<JobRow>(
        `with found as materialized (
           select uid, spec = $3 as same from jobs
            where uid = $1 and version = $2 and deleted_at is null for update
         ), written as (
           update jobs j
              set spec = $3, generation = j.generation + 1, version = j.version + 1,
                  changed_xid = pg_current_xact_id()
             from found f where j.uid = f.uid and not f.same
           returning j.*
         )
         select w.* from written w
         union all
         select j.* from jobs j join found f using (uid) where f.same`,
        [job.uid, job.version, JSON.stringify(spec)],
      );
      if (rows[0]) {
        tellOf(rows[0]);
        return jobOf(rows[0]);
      }
      throw await reasonAgainst(pool, job);
    },

    delete: async (job) => {
      if (!(await markDeleted(job, null))) throw new JobNotFound(`there is no job ${job.id}`);
    },

    deleteUnchanged: (job) => markDeleted(job, job.version),

    watch: (position, signal) => watchJobs({ pool, notifications, timers, position, signal }),

    ping: async () => {
      await pool.query("select 1");
    },
  };
}

interface NewJob {
  account: string;
  id: string;
  spec: string;
}

type CreatedRow = Omit<JobRow, "spec">;

/**
 * Inserts all in one transaction. Undefined for a job whose id the account has already, in the table or in this
 * group, and for a job of an account that was deleted after its caller had been authenticated.
 */
async function insertJobs(
  pool: Pool,
  jobs: readonly NewJob[],
): Promise<readonly (CreatedRow | undefined)[]> {
  const { rows } = await pool.query<CreatedRow>({
    name: "jobs_insert",
    text: `insert into jobs (account, id, spec)
           select account, id, spec::jsonb
             from rows from (unnest($1::uuid[], $2::text[]), json_array_elements($3::json))
                    as n(account, id, spec)
            where account not in (select id from accounts where deleted_at is not null)
           on conflict (account, id) where deleted_at is null do nothing
           returning uid, account, id, generation, version, created_at, deleted_at`,
    values: [
      jobs.map((job) => job.account),
      jobs.map((job) => job.id),
      // Not an array of texts: in it each quote is escaped, which takes thirty times the memory.
      `[${jobs.map((job) => job.spec).join(",")}]`,
    ],
  });
  const written = new Map(rows.map((row) => [`${row.account} ${row.id}`, row]));
  return jobs.map((job) => {
    const name = `${job.account} ${job.id}`;
    const row = written.get(name);
    written.delete(name);
    return row;
  });
}

async function isDeleted(pool: Pool, account: string): Promise<boolean> {
  const { rows } = await pool.query(
    "select from accounts where id = $1 and deleted_at is not null",
    [account],
  );
  return rows.length > 0;
}

async function reasonAgainst(pool: Pool, job: Job): Promise<Error> {
  const { rows } = await pool.query("select from jobs where uid = $1 and deleted_at is null", [
    job.uid,
  ]);
  return rows.length === 0
    ? new JobNotFound(`there is no job ${job.id}`)
    : new VersionConflict(`the job ${job.id} was changed since it was read`);
}

interface PageToken {
  createdAt: Instant;
  id: string;
  uid: string;
  position: string;
}

function tokenOf(last: Job, position: string): string {
  const token: PageToken = { createdAt: last.createdAt, id: last.id, uid: last.uid, position };
  return Buffer.from(JSON.stringify(token)).toString("base64url");
}

/** Throws for a token that `tokenOf` has not made: that is a programming error of the caller. */
function pageOf(token: string): PageToken {
  return JSON.parse(Buffer.from(token, "base64url").toString()) as PageToken;
}
