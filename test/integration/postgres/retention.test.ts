import { randomBytes, randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { DAY } from "../../../src/domain/instant.ts";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createOtps } from "../../../src/postgres/otps.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createRetention } from "../../../src/postgres/retention.ts";
import {
  change,
  claimed,
  cursorOf,
  expireLease,
  job,
  runsFixture,
  startedRun,
  startOne,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import type { Job } from "../../../src/domain/job.ts";
import { untilWanted } from "../../postgres/wanted.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";

/** A database for each test, because the retention task deletes from the whole database. */
let fixture: RunsFixture;
beforeEach(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

const retention = (pool: Pool, retentionDays: number, batchSize?: number) =>
  createRetention({
    pool,
    clock: { known: true, now: () => Date.now() },
    retentionDays,
    batchSize,
  }).run(new AbortController().signal);
const run = (retentionDays: number, batchSize?: number) =>
  retention(fixture.pool, retentionDays, batchSize);

async function executed(of: Job, daysAgo: number): Promise<void> {
  const attempt = await startedRun(fixture, of, { at: Date.now() - daysAgo * DAY });
  await fixture.queue.close([success(attempt, Date.now() - daysAgo * DAY)]);
}

const ages = async (of: Job) =>
  (await fixture.executionsOf(of)).map((execution) =>
    Math.round((Date.now() - execution.executedAt) / DAY),
  );

const count = async (table: string, uid: string) =>
  (
    await fixture.pool.query<{ n: number }>(
      `select count(*) as n from ${table} where job_uid = $1`,
      [uid],
    )
  ).rows[0]?.n;

test("months beyond the maximum go; 0 keeps all; months ahead are there", async () => {
  const of = job();
  for (const age of [400, 200, 1]) await executed(of, age);
  await run(0);
  expect(await ages(of)).toEqual([1, 200, 400]);
  await run(90);
  expect(await ages(of)).toEqual([1]);
  const { rows } = await fixture.pool.query<{ found: boolean }>(
    "select to_regclass('executions_' || to_char(now() + interval '2 months', 'YYYY_MM')) is not null as found",
  );
  expect(rows[0]?.found).toBe(true);
});

test("months go for a role that has backslashes in strings as escapes, too", async () => {
  const of = job();
  await executed(of, 200);
  const options = encodeURIComponent("-c standard_conforming_strings=off");
  const url = `${fixture.url}?options=${options}`;
  const pool = createPool({ url, applicationName: "own defaults" });
  await retention(pool, 90);
  expect(await ages(of)).toEqual([]);
  await pool.end();
});

const inMonths = (months: number) =>
  `to_char(now() at time zone 'UTC' + interval '${months} months', 'YYYY_MM')`;

test.each([
  {
    does: "drops a month of executions",
    table: "executions",
    before: "select executions_ensure_month(now() - interval '2 years')",
    after: `select to_regclass('executions_' || ${inMonths(-24)}) is null as done`,
  },
  {
    does: "makes a month of executions",
    table: "executions",
    before: `do $$ begin execute 'drop table executions_' || ${inMonths(2)}; end $$`,
    after: `select to_regclass('executions_' || ${inMonths(2)}) is not null as done`,
  },
  {
    does: "drops a month of the email log",
    table: "email_log",
    before: "select email_log_ensure_month(now() - interval '2 years')",
    after: `select to_regclass('email_log_' || ${inMonths(-24)}) is null as done`,
  },
  {
    does: "makes a month of the email log",
    table: "email_log",
    before: `do $$ begin execute 'drop table email_log_' || ${inMonths(1)}; end $$`,
    after: `select to_regclass('email_log_' || ${inMonths(1)}) is not null as done`,
  },
])(
  "while a backup holds the tables, who $does holds up nobody for long, and does it afterwards",
  async ({ table, before, after }) => {
    await run(90);
    await fixture.pool.query(before);
    const [backup, writer] = [await fixture.pool.connect(), await fixture.pool.connect()];
    try {
      await backup.query(`begin; lock table ${table} in access share mode`);
      const ran = run(90).then(
        () => "done",
        () => "given up",
      );
      // On a busy machine it may have given up before it is seen to wait.
      await Promise.race([untilWanted(fixture.pool, table), ran]);
      // Shorter than the time for which recorders wait for a lock.
      await writer.query(
        `begin; set local lock_timeout = '3s'; lock table ${table} in row exclusive mode`,
      );
      await writer.query("rollback");
      expect(await ran).toBe("given up");
      await backup.query("rollback");
      await run(90);
      const { rows } = await fixture.pool.query<{ done: boolean }>(after);
      expect(rows).toEqual([{ done: true }]);
    } finally {
      backup.release(true);
      writer.release(true);
    }
  },
);

test("two that want to drop the same month: it is gone once, and neither fails", async () => {
  await fixture.pool.query("select executions_ensure_month(now() - interval '2 years')");
  const pool = createPool({ url: fixture.url, applicationName: "test" });
  let months = 0;
  const slow = aroundQueries(pool, async (ask, [text]) => {
    const result = await ask();
    if (!String(text).includes("'executions'::regclass")) return result;
    // It knows the months by now; the other one drops them before it does.
    months += result.rows.length;
    await run(90);
    return result;
  });
  try {
    await retention(slow, 90);
    expect(months).toBe(1);
  } finally {
    await pool.end();
  }
});

test("an account that keeps less loses its own older rows only", async () => {
  const [short, long] = [job(), job()];
  await fixture.pool.query(
    "insert into accounts (id, name, retention_days) values ($1::uuid, $1::text, 7)",
    [short.account],
  );
  const missed = async (of: Job, first: number, last: number) =>
    fixture.pool.query(
      `insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select $1, 'j', $2, now() - $3 * interval '1 day', now() - $4 * interval '1 day', 2, 'overlap'`,
      [of.account, of.uid, first, last],
    );
  for (const of of [short, long]) {
    for (const age of [20, 3]) await executed(of, age);
    await missed(of, 20, 19);
    await missed(of, 20, 3);
  }
  // Also if the installation itself keeps everything (0).
  for (const retentionDays of [0, 90]) {
    await run(retentionDays);
    expect(await ages(short)).toEqual([3]);
    expect(await count("missed_spans", short.uid)).toBe(1);
    expect(await ages(long)).toEqual([3, 20]);
    expect(await count("missed_spans", long.uid)).toBe(2);
  }
});

test("old rows of an account are looked for among its own, so many at a time, whatever others have", async () => {
  // Makes the planner plan as for large tables on a slow disk.
  const options = encodeURIComponent("-c random_page_cost=1000");
  const pool = createPool({ url: `${fixture.url}?options=${options}`, applicationName: "test" });
  const [short, long] = [randomUUID(), randomUUID()];
  await pool.query(
    "insert into accounts (id, name, retention_days) values ($1::uuid, $1::text, 7)",
    [short],
  );
  await pool.query(
    "select executions_ensure_month(now() - n * interval '1 day') from generate_series(1, 20) as n",
  );
  // Each is of a job of its own, as with one-times, and they lie in the table in the order of insertion.
  const history = `unnest($1::uuid[]) as account,
     lateral (select n, now() - interval '1 hour' - n % 20 * interval '1 day' from generate_series(1, 4000) as n) as of(job, at)
     order by at`;
  await pool.query(
    `insert into executions (account, job_id, job_uid, run_id, status, http_status, duration_ms, executed_at,
                             attempt, trigger, scheduled_at)
     select account, 'job-' || job, uuidv7(), uuidv7(), 'success', 200, 1, at, 1, 'schedule', at from ${history}`,
    [[short, long]],
  );
  await pool.query(
    `insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
     select account, 'job-' || job, uuidv7(), at, at, 1, 'overlap' from ${history}`,
    [[short, long]],
  );
  await pool.query("vacuum analyze executions, missed_spans");

  const beyond: string[][] = [];
  const connect = async () => {
    const client = await pool.connect();
    const query = async (text: string, values: unknown[]) => {
      if (/delete from (?:executions|missed_spans)/.test(text)) {
        await client.query("savepoint before");
        const { rows } = await client.query<{ "QUERY PLAN": string }>(
          `explain (analyze, costs off) ${text}`,
          values,
        );
        await client.query("rollback to savepoint before");
        beyond.push(
          rows
            .map((row) => row["QUERY PLAN"])
            .filter((line) => Number(/(?:rows=|Filter: )(\d+)/.exec(line)?.[1]) > 101),
        );
      }
      return client.query(text, values);
    };
    return Object.create(client, { query: { value: query } }) as typeof client;
  };
  await retention(Object.create(pool, { connect: { value: connect } }) as Pool, 0, 100);

  for (const [table, at] of [
    ["executions", "executed_at"],
    ["missed_spans", "last_at"],
  ]) {
    const { rows } = await pool.query(
      `select account, count(*) as entries, min(${at}) > now() - interval '7 days' as young
         from ${table} group by account order by entries`,
    );
    expect([table, rows]).toEqual([
      table,
      [
        { account: short, entries: 1_400, young: true },
        { account: long, entries: 4_000, young: false },
      ],
    ]);
  }
  // Some of each hundred are old; after the last hundred there is none.
  expect(beyond).toEqual(Array.from({ length: 2 * (4_000 / 100 + 1) }, () => []));
  await pool.end();
});

test("executions go also where all tables are published, of the months that were there and of new ones", async () => {
  const of = job();
  await fixture.pool.query(
    "insert into accounts (id, name, retention_days) values ($1::uuid, $1::text, 7)",
    [of.account],
  );
  for (const age of [200, 20, 3]) await executed(of, age);
  await fixture.pool.query("create publication everything for all tables");
  await run(0);
  expect(await ages(of)).toEqual([3]);
  const { rows } = await fixture.pool.query(
    `select relid::regclass as unknown from pg_partition_tree('executions') join pg_class on oid = relid
      where relreplident <> 'f'`,
  );
  expect(rows).toEqual([]);
});

test("passcodes whose limits have run out go, and circuits of killed processes", async () => {
  const { pool } = fixture;
  const account = randomUUID();
  const otps = createOtps({
    pool,
    keyRing: parseKeyRing(`k:${randomBytes(32).toString("base64")}`),
  });
  const circuits = createCircuits({ pool });
  for (const age of ["59 minutes", "61 minutes"]) {
    await otps.issue(account, `${age}@example.com`);
    await circuits.publish({ account, destination: age, worker: "killed", state: "open" });
    await pool.query(
      "update otps set updated_at = now() - $2::interval where account = $1 and address = $3",
      [account, age, `${age}@example.com`],
    );
    await pool.query(
      "update circuits set updated_at = now() - $2::interval where account = $1 and destination = $2::text",
      [account, age],
    );
  }
  await run(0);
  const left = async (column: string, table: string) =>
    (
      await pool.query<{ left: string }>(
        `select ${column} as left from ${table} where account = $1`,
        [account],
      )
    ).rows.map((row) => row.left);
  expect(await left("address", "otps")).toEqual(["59 minutes@example.com"]);
  expect(await left("destination", "circuits")).toEqual(["59 minutes"]);
});

test("a deleted job's cursor, revisions and keys stay a week; old revisions of a live one go", async () => {
  const [fresh, old, live] = [job(), job(), job()];
  for (const of of [fresh, old, live]) {
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "key");
  }
  await fixture.cancel([fresh, old]);
  await fixture.pool.query(
    "update job_cursors set deleted_at = now() - interval '8 days' where job_uid = $1",
    [old.uid],
  );
  await fixture.pool.query(
    "update manual_run_keys set requested_at = now() - interval '9 days' where job_uid = $1",
    [old.uid],
  );
  await fixture.apply({ ...live, generation: 2 });
  await run(90);
  for (const table of ["job_cursors", "job_revisions", "manual_run_keys"]) {
    expect([table, await count(table, fresh.uid)]).toEqual([table, 1]);
    expect([table, await count(table, old.uid)]).toEqual([table, 0]);
    expect([table, await count(table, live.uid)]).toEqual([table, 1]);
  }
  await fixture.cancel([live]);
});

test("the key of a manual run stays for as long as the run is unfinished", async () => {
  const of = job();
  await fixture.apply(of);
  await fixture.ledger.runNow(of, "key");
  await fixture.pool.query(
    "update manual_run_keys set requested_at = now() - interval '9 days' where job_uid = $1",
    [of.uid],
  );
  await run(90);
  expect(await count("manual_run_keys", of.uid)).toBe(1);
  const manual = await startOne(fixture.queue, of);
  await fixture.queue.close([success(manual)]);
  await run(90);
  expect(await count("manual_run_keys", of.uid)).toBe(0);
});

test("an older revision stays for as long as a run of it is under way", async () => {
  const of = job();
  const attempt = await startedRun(fixture, of);
  await fixture.apply({ ...of, generation: 2 });
  await run(90);
  expect(await count("job_revisions", of.uid)).toBe(2);
  await fixture.queue.close([success(attempt)]);
  await run(90);
  expect(await count("job_revisions", of.uid)).toBe(1);
});

test("older revisions are looked for among so many jobs at a time, however many there are", async () => {
  const jobs = Array.from({ length: 100 }, () => job());
  await fixture.ledger.apply(jobs.map((of) => change(of)));
  const edited = jobs.slice(-20);
  for (const generation of [2, 3, 4]) {
    const cursors = await fixture.ledger.cursors(edited.map(({ uid }) => uid));
    await fixture.ledger.apply(
      edited.map((of) => change({ ...of, generation }, { from: cursors.get(of.uid) })),
    );
  }
  const said: [text: string, values: unknown[]][] = [];
  const query = async (text: string, values: unknown[]) => {
    if (text.includes("delete from job_revisions")) said.push([text, values]);
    return fixture.pool.query(text, values);
  };
  const heard = Object.create(fixture.pool, { query: { value: query } }) as Pool;
  await retention(heard, 90, 10);
  for (const { uid } of edited) expect(await count("job_revisions", uid)).toBe(1);
  expect(said.length).toBeGreaterThan(0);
  for (const [text, values] of said) {
    const { rows } = await fixture.pool.query<{ "QUERY PLAN": string }>(
      `explain (analyze, costs off) ${text}`,
      values,
    );
    const beyond = rows.filter(
      ({ "QUERY PLAN": line }) => Number(/rows=(\d+)/.exec(line)?.[1]) > 11,
    );
    expect(beyond).toEqual([]);
  }
});

test("a revision to which a restored store just goes back stays", async () => {
  const of = job();
  await fixture.apply(of);
  await fixture.apply({ ...of, generation: 2 });
  const leader = await openTransaction(
    fixture.pool,
    "update job_cursors set generation = 1 where job_uid = $1",
    [of.uid],
  );
  await leader.client.query(
    "update job_revisions set spec = spec where job_uid = $1 and generation = 1",
    [of.uid],
  );
  const retained = run(90);
  // Until it has gone by, or waits.
  await Promise.race([retained, untilLockWaits(fixture.pool)]);
  await leader.commit();
  await retained;
  const { rows } = await fixture.pool.query(
    "select generation from job_revisions where job_uid = $1 order by generation",
    [of.uid],
  );
  expect(rows).toEqual([{ generation: 1 }, { generation: 2 }]);
});

test("of the deletions that are forgotten the latest transaction is noted, in whatever order they go", async () => {
  // The transaction that began later (20) has the earlier time. The third has been deleted only now, and stays.
  await fixture.pool.query(
    `insert into jobs (account, id, spec, deleted_at, changed_xid)
     select $1, xid::text, '{}', now() - interval '3 days' + days * interval '1 day', xid::text::xid8
       from unnest(array[0, 1, 3], array[20, 10, 30]) as deleted(days, xid)`,
    [randomUUID()],
  );
  await run(0, 1);
  const { rows } = await fixture.pool.query(
    "select value, (select count(*) from jobs) as jobs from carillon_meta where key = 'jobs_purged_xid'",
  );
  expect(rows).toEqual([{ value: "20", jobs: 1 }]);
});

test("a job that was made while its account was deleted goes", async () => {
  const { pool } = fixture;
  const { rows: accounts } = await pool.query<{ id: string }>(
    `insert into accounts (name, deleted_at) values ('gone', now()), ('kept', null) returning id`,
  );
  await pool.query(
    `insert into jobs (account, id, spec)
     select account, id, '{}' from unnest($1::uuid[]) account, unnest($2::text[]) id`,
    [accounts.map(({ id }) => id), ["job-1", "job-2", "job-3"]],
  );
  await run(0, 2);
  const { rows: left } = await pool.query(
    `select name, j.id from jobs j join accounts a on a.id = j.account
      where j.deleted_at is null order by name, j.id`,
  );
  expect(left).toEqual(["job-1", "job-2", "job-3"].map((id) => ({ name: "kept", id })));
});

test("an account deleted 30 days ago is purged whole", async () => {
  const of = job();
  await fixture.pool.query(
    "insert into accounts (id, name, deleted_at) values ($1::uuid, $1::text, null)",
    [of.account],
  );
  await executed(of, 1);
  await claimed(fixture, of);
  await fixture.pool.query("insert into jobs (account, id, spec) values ($1, 'j', '{}')", [
    of.account,
  ]);
  await fixture.pool.query(
    "update accounts set deleted_at = now() - interval '31 days' where id = $1",
    [of.account],
  );
  await run(90);
  expect(await ages(of)).toEqual([]);
  expect(await count("runs", of.uid)).toBe(0);
  expect(await cursorOf(fixture.ledger, of)).toMatchObject({ deleted: true, startable: false });
  for (const [table, column] of [
    ["jobs", "account"],
    ["accounts", "id"],
  ]) {
    const { rowCount } = await fixture.pool.query(`select from ${table} where ${column} = $1`, [
      of.account,
    ]);
    expect([table, rowCount]).toEqual([table, 0]);
  }
});

test("a step that fails keeps none of the others from its turn, and is told of", async () => {
  const { pool } = fixture;
  await pool.query(
    `create function broken() returns trigger language plpgsql as $$ begin raise 'broken'; end $$`,
  );
  await pool.query(
    "create trigger broken before delete on otps for each statement execute function broken()",
  );
  await pool.query(
    `insert into single_sign_ons (token_hash, state, nonce, code_verifier, expires_at)
     values (sha256(''), '', '', '', now() - interval '1 hour')`,
  );
  await expect(run(0)).rejects.toThrow("broken");
  const { rowCount } = await pool.query("select from single_sign_ons");
  expect(rowCount).toBe(0);
});

test("one that is told to end removes nothing more", async () => {
  const of = job();
  await executed(of, 400);
  const retention = createRetention({
    pool: fixture.pool,
    clock: { known: true, now: () => Date.now() },
    retentionDays: 90,
  });
  await retention.run(AbortSignal.abort());
  expect(await ages(of)).toEqual([400]);
});

test("a run that is still to be closed keeps the revision and the cursor of a job deleted long ago", async () => {
  const of = job();
  const attempt = await startedRun(fixture, of);
  await fixture.cancel([of]);
  await fixture.pool.query(
    "update job_cursors set deleted_at = now() - interval '8 days' where job_uid = $1",
    [of.uid],
  );
  await expireLease(fixture, attempt);
  await run(90);
  expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
  await run(90);
  for (const table of ["runs", "job_cursors", "job_revisions"])
    expect([table, await count(table, of.uid)]).toEqual([table, 0]);
});

const EXPIRED = [
  {
    table: "manual_run_keys",
    insert: `(job_uid, key, requested_at)
      select uuidv7(), 'k', now() - interval '8 days'`,
  },
  {
    table: "idempotency_keys",
    insert: `(account, scope, key, token, fingerprint, started_at)
      select uuidv7(), 's', 'k', uuidv7(), '', now() - interval '25 hours'`,
  },
  {
    table: "otps",
    insert: `(account, address, id, active, expires_at, sends, updated_at)
      select uuidv7(), '', uuidv7(), false, now(), '{}', now() - interval '2 hours'`,
  },
  {
    table: "single_sign_ons",
    insert: `(token_hash, state, nonce, code_verifier, expires_at)
      select sha256(uuidv7()::text::bytea), '', '', '', now() - interval '1 hour'`,
  },
  {
    table: "sessions",
    insert: `(token_hash, user_id, expires_at)
      select sha256(uuidv7()::text::bytea), (select id from users limit 1),
             now() - interval '1 hour'`,
  },
  {
    table: "sign_in_failures",
    insert: `(guesser, failures, last_at)
      select sha256(uuidv7()::text::bytea), 1, now() - interval '2 hours'`,
  },
  {
    table: "invitations",
    insert: `(account, email, role, token_hash, expires_at)
      select (select id from accounts limit 1), n::text, 'member', sha256(uuidv7()::text::bytea),
             now() - interval '1 hour'`,
  },
  {
    table: "circuits",
    insert: `(account, destination, worker, state, updated_at)
      select uuidv7(), '', '', 'open', now() - interval '2 hours'`,
  },
  {
    table: "execution_counts",
    insert: `(account, hour, status, slot, entries)
      select uuidv7(), now() - interval '101 days', 'success', 0, 1`,
  },
  {
    table: "otp_counts",
    insert: `(account, day, outcome, entries)
      select uuidv7(), now()::date - 101, 'verified', 1`,
  },
  {
    table: "missed_spans",
    insert: `(account, job_id, job_uid, first_at, last_at, count, reason, recorded_at)
      select uuidv7(), 'j', uuidv7(), now(), now(), 1, 'overlap', now() - interval '91 days'`,
  },
  {
    table: "jobs",
    insert: `(account, id, spec, deleted_at)
      select uuidv7(), 'j', '{}', now() - interval '2 days'`,
  },
  {
    table: "job_cursors",
    insert: `(job_uid, job_id, position, schedule_hash, generation, startable, once, deleted_at)
      select uuidv7(), 'j', now(), '', 1, false, 'armed', now() - interval '8 days'`,
  },
];

test.each(EXPIRED)("$table: expired rows go in batches, never in one statement", async (row) => {
  const { table, insert } = row;
  const fresh = insert
    .replace(/now\(\) - interval '[^']*'/, "now() + interval '1 hour'")
    .replace("- 101", "");
  const { pool } = fixture;
  await pool.query(`insert into accounts (id, name) select uuidv7(), 'one'`);
  await pool.query(
    `insert into users (account, email, role)
     select id, 'one@example.com', 'owner' from accounts`,
  );
  await pool.query(`insert into ${table} ${insert} from generate_series(1, 5) as n`);
  await pool.query(`insert into ${table} ${fresh} from generate_series(6, 8) as n`);
  await refuseToDeleteMore(table, 2);
  const rows = async () =>
    (await pool.query<{ n: number }>(`select count(*) as n from ${table}`)).rows[0]?.n ?? 0;
  const before = await rows();
  await run(90, 2);
  expect(before - (await rows())).toBe(5);
});

test.each([
  {
    what: "deleted jobs",
    table: "jobs",
    insert: `insert into jobs (account, id, spec, deleted_at)
      select uuidv7(), 'j', '{}', now() - interval '2 days' from generate_series(1, 600)`,
  },
  {
    what: "jobs of a deleted account",
    table: "jobs",
    insert: `with gone as (
        insert into accounts (name, deleted_at) values ('gone', now() - interval '31 days') returning id
      )
      insert into jobs (account, id, spec) select id, n::text, '{}' from gone, generate_series(1, 600) as n`,
  },
  {
    what: "revisions of deleted jobs",
    table: "job_revisions",
    insert: `with made as (
        insert into job_cursors (job_uid, job_id, position, schedule_hash, generation, startable, once, deleted_at)
        select uuidv7(), 'j', now(), '', 1, false, 'armed', now() - interval '8 days'
          from generate_series(1, 600) returning job_uid
      )
      insert into job_revisions (job_uid, generation, spec) select job_uid, 1, '{}' from made`,
  },
  {
    what: "older revisions",
    table: "job_revisions",
    insert: `with made as (
        insert into job_cursors (job_uid, job_id, position, schedule_hash, generation, startable, once)
        select uuidv7(), 'j', now(), '', 4, true, 'armed' from generate_series(1, 200) returning job_uid
      )
      insert into job_revisions (job_uid, generation, spec)
      select job_uid, generation, '{}' from made, generate_series(1, 3) as generation`,
  },
])("$what go a few hundred at a time: a spec may have 256 KiB", async ({ table, insert }) => {
  const { pool } = fixture;
  await pool.query(insert);
  await refuseToDeleteMore(table, 300);
  await run(90);
  const { rows } = await pool.query(`select count(*) as left from ${table}`);
  expect(rows).toEqual([{ left: 0 }]);
});

/** From now on a statement that deletes more rows of the table than `most` fails. */
async function refuseToDeleteMore(table: string, most: number): Promise<void> {
  await fixture.pool.query(
    `create function refuse_more() returns trigger language plpgsql as $$
     begin
       if (select count(*) from gone) > ${most} then raise 'too many in one statement'; end if;
       return null;
     end $$`,
  );
  await fixture.pool.query(
    `create trigger refuse_more after delete on ${table} referencing old table as gone
       for each statement execute function refuse_more()`,
  );
}
