import { randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  checkSchema,
  compareVersions,
  DatabaseNotUtf8,
  DatabaseTooNew,
  DatabaseTooOld,
  forgetOtherClusters,
  migrate,
  RoleTooWeak,
} from "../../../src/postgres/migrate.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { createRunHistory } from "../../../src/postgres/run-history.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { admin } from "../../postgres/admin.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { createEmptyDatabase, urlAs, type TestDatabase } from "../../postgres/database.ts";
import { migrateUpTo } from "../../postgres/older-schema.ts";
import { untilWanted } from "../../postgres/wanted.ts";
import { until } from "../../until.ts";

const databases: TestDatabase[] = [];
async function empty(options?: string): Promise<TestDatabase> {
  const database = await createEmptyDatabase(options);
  databases.push(database);
  return database;
}
afterEach(async () => {
  for (const database of databases.splice(0)) await database.drop();
});

test("several processes at once: one migrates, the others wait and find nothing to do", async () => {
  const { url } = await empty();
  const lines: string[] = [];
  const results = await Promise.all(
    Array.from({ length: 4 }, () =>
      migrate({ url, appVersion: "1.0.0", onProgress: (line) => lines.push(line) }),
    ),
  );
  const applied = results.filter((result) => result.applied.length > 0);
  expect(applied).toHaveLength(1);
  expect(applied[0]?.applied[0]).toBe("0001_accounts");
  expect(lines[0]).toMatch(/0001_accounts/);
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: [] });
});

test("a migration takes its time, whatever time limits the role has", async () => {
  const { url } = await empty();
  // One statement takes longer than any of the limits, and so do all of them together.
  const slow =
    "begin perform pg_sleep(case tg_tag when 'CREATE FUNCTION' then 0.6 else 0.02 end); end";
  await admin(
    url,
    `create function slow() returns event_trigger language plpgsql as $$ ${slow} $$`,
  );
  await admin(url, "create event trigger slow on ddl_command_end execute function slow()");
  const theirs = ["transaction_timeout", "statement_timeout", "lock_timeout"];
  const options = theirs.map((setting) => `-c ${setting}=500ms`).join(" ");
  const limited = `${url}?options=${encodeURIComponent(options)}`;
  const { applied } = await migrate({ url: limited, appVersion: "1.0.0" });
  expect(applied).not.toEqual([]);
});

/** The states before a migration that changes `runs`, which is in use, and before the migration before it. */
const BEFORE_RUNS = "0010_who_invites";
const BEFORE_INVITATIONS = "0009_revisions_by_content";

function poolOf(url: string): Pool {
  return createPool({ url, applicationName: "test" });
}

/** A database to which migrations are still to be applied, and a backup that holds a table which they change. */
async function duringBackup() {
  const { url } = await empty();
  const missing = await migrateUpTo(url, BEFORE_RUNS);
  const pool = poolOf(url);
  const backup = await openTransaction(pool, "lock table runs in access share mode");
  return { url, missing, pool, endBackup: backup.commit };
}

test("during a backup, which holds every table, it waits without holding up those who work on them", async () => {
  const { url, missing, pool, endBackup } = await duringBackup();
  const waiting = Promise.withResolvers<void>();
  const migrated = migrate({
    url,
    appVersion: "1.0.0",
    onProgress: (line) => {
      if (line.startsWith("Waiting")) waiting.resolve();
    },
  });
  await untilWanted(pool, "runs");
  // Succeeds well within the time for which programs wait for a lock.
  await pool.query("set lock_timeout = '3s'; select from runs for update");
  await waiting.promise;
  await endBackup();
  expect(await migrated).toEqual({ applied: missing });
  await pool.end();
});

test("PostgreSQL that ends its session in the middle of a migration is away, and the migration has not failed", async () => {
  const { url, missing, pool, endBackup } = await duringBackup();
  const cutShort = migrate({ url, appVersion: "1.0.0" }).catch((error: unknown) => error);
  await untilWanted(pool, "runs");
  await pool.query(
    "select pg_terminate_backend(pid, 5000) from pg_locks where relation = 'runs'::regclass and not granted",
  );
  expect(await cutShort).toBeInstanceOf(DependencyUnavailable);
  await endBackup();
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: missing });
  await pool.end();
});

test("told to end while it waits, it does, and has changed nothing", async () => {
  const { url, pool, endBackup } = await duringBackup();
  const terminated = new AbortController();
  const migrated = migrate({
    url,
    appVersion: "1.0.0",
    signal: terminated.signal,
  }).catch((error: unknown) => error);
  await untilWanted(pool, "runs");
  terminated.abort();
  expect(await migrated).toBeInstanceOf(Error);
  await endBackup();
  await expect(checkSchema({ pool, appVersion: "1.0.0" })).rejects.toThrow(DatabaseTooOld);
  await pool.end();
});

test("told to end while it connects, it does", async () => {
  const { url } = await empty();
  const terminated = new AbortController();
  const migrated = migrate({ url, appVersion: "1.0.0", signal: terminated.signal });
  terminated.abort();
  await expect(migrated).rejects.toThrow(/aborted/);
});

test("of one whose process has gone, the server does not finish what takes long, and others wait for", async () => {
  const { url } = await empty();
  await migrateUpTo(url, BEFORE_RUNS);
  const pool = poolOf(url);
  await admin(
    url,
    `create function takes_long() returns event_trigger language plpgsql as
       'begin perform pg_sleep(600); end'`,
  );
  await admin(url, "create event trigger long on ddl_command_end execute function takes_long()");
  const terminated = new AbortController();
  const migrated = migrate({ url, appVersion: "1.0.0", signal: terminated.signal }).catch(
    (error: unknown) => error,
  );
  const rows = async (text: string) => (await pool.query(text)).rowCount;
  const sleeping = `select from pg_stat_activity
     where datname = current_database() and wait_event = 'PgSleep'`;
  await until("the migration is under way", async () => (await rows(sleeping)) === 1);
  terminated.abort();
  expect(await migrated).toBeInstanceOf(Error);
  await until("the server has taken it back", async () => (await rows(sleeping)) === 0);
  await pool.end();
});

/**
 * Migrates a database from the state `from`, beside a program with an open transaction: it has executed `begins`, and
 * when the migration waits for the table `wanted`, it executes `goesOn` and commits.
 */
async function migrateBeside(program: {
  from: string;
  begins: string;
  wanted: string;
  goesOn: string;
  deadlockTimeout?: string;
}) {
  const { url } = await empty();
  const missing = await migrateUpTo(url, program.from);
  const pool = poolOf(url);
  const client = await pool.connect();
  await client.query(`set deadlock_timeout = '${program.deadlockTimeout ?? "1s"}'`);
  await client.query(`begin; ${program.begins}`);
  const migrated = migrate({ url, appVersion: "1.0.0" });
  await untilWanted(pool, program.wanted);
  await client.query(program.goesOn);
  await client.query("commit");
  client.release();
  const result = await migrated;
  await pool.end();
  return { result, missing };
}

test("a migration that has to wait has given the tables of the one before it to the programs", async () => {
  const { result, missing } = await migrateBeside({
    from: BEFORE_INVITATIONS,
    begins: "lock table runs in row exclusive mode",
    wanted: "runs",
    // This column came with the migration before.
    goesOn: "select invited_by from invitations",
  });
  expect(result).toEqual({ applied: missing });
});

test("a clock that was set back since the last migration stops none", async () => {
  const { url } = await empty();
  const missing = await migrateUpTo(url, BEFORE_INVITATIONS);
  await admin(url, "update carillon_migrations set run_on = now() + interval '1 hour'");
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: missing });
});

test("a database that logical replication has filled is migrated: sequences stay behind", async () => {
  const { url } = await empty();
  const missing = await migrateUpTo(url, BEFORE_INVITATIONS);
  await admin(url, "alter sequence carillon_migrations_id_seq restart");
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: missing });
});

test("a change of a job that was begun before the index of changes is made again goes on", async () => {
  const { result, missing } = await migrateBeside({
    from: "0015_when_a_retry_was_due",
    // So short that the program, not the migration, would be told of a deadlock.
    deadlockTimeout: "10ms",
    begins: "lock table jobs in row share mode",
    wanted: "jobs",
    goesOn: "lock table jobs in row exclusive mode",
  });
  expect(result).toEqual({ applied: missing });
});

test("somebody who holds what it wants, and wants what it holds, is let through", async () => {
  const { result, missing } = await migrateBeside({
    // The next migration changes job_cursors, then job_history.
    from: "0011_runs_without_first_start",
    // In a deadlock the one that detects it first is ended: with so long a timeout, that is the migration.
    deadlockTimeout: "1min",
    begins: "lock table job_history in row exclusive mode",
    wanted: "job_history",
    goesOn: "lock table job_cursors in row exclusive mode",
  });
  expect(result).toEqual({ applied: missing });
});

test("one that has nothing to do waits for another that holds a table all the same", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  const other = await openTransaction(pool, "lock table jobs in access exclusive mode");
  const waiting = Promise.withResolvers<string>();
  const migrated = migrate({ url, appVersion: "1.0.0", onProgress: waiting.resolve });
  expect(await waiting.promise).toMatch(/^Waiting for another migration/);
  await other.commit();
  expect(await migrated).toEqual({ applied: [] });
  await pool.end();
});

test("an autovacuum of a table gives way to it", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-test-autovacuum-"));
  const server = await startEmbeddedPostgres({
    dataDir,
    settings: { fsync: "off", autovacuum_naptime: "1" },
  });
  try {
    const missing = await migrateUpTo(server.url, BEFORE_RUNS);
    const pool = poolOf(server.url);
    await pool.query(
      `alter table runs set (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
         autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)`,
    );
    await pool.query(
      `insert into runs (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
       select uuidv7(), uuidv7(), 'j', 1, 'schedule', n::text, now(), now(), 'd' from generate_series(1, 5_000) as n`,
    );
    await pool.query("update runs set attempts = attempts");
    await until("it is under way", async () => {
      const { rowCount } = await pool.query(
        `select from pg_stat_progress_vacuum where relid = 'runs'::regclass`,
      );
      return rowCount === 1;
    });
    // Long before that vacuum ends, which would take longer than a test may.
    expect(await migrate({ url: server.url, appVersion: "1.0.0" })).toEqual({ applied: missing });
    await pool.end();
  } finally {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("the last execution of each job comes along", async () => {
  const { url } = await empty();
  await migrateUpTo(url, "0011_runs_without_first_start");
  const pool = poolOf(url);
  const account = randomUUID();
  const [attempted, never, gone] = [randomUUID(), randomUUID(), randomUUID()];
  for (const uid of [attempted, never])
    await pool.query(
      `insert into job_cursors (job_uid, account, job_id, position, schedule_hash, generation, startable, once)
       values ($1, $2, 'job-1', now(), 'h', 1, true, 'armed')`,
      [uid, account],
    );
  const execution = {
    id: randomUUID(),
    job_id: "job-1",
    run_id: randomUUID(),
    status: "failed",
    http_status: 503,
    duration_ms: 12,
    error_message: "no",
    executed_at: "2026-11-03T00:00:00.001Z",
    attempt: 2,
    trigger: "schedule",
    scheduled_at: "2026-11-02T00:00:00.000Z",
    last_schedule_time: "2026-11-02T00:00:00.000Z",
    last_success_time: "2026-11-01T00:00:00.000Z",
  };
  for (const job_uid of [attempted, gone])
    await pool.query(
      "insert into job_history select (jsonb_populate_record(null::job_history, $1)).*",
      [JSON.stringify({ job_uid, ...execution })],
    );
  expect(await migrate({ url, appVersion: "1.0.0" })).toMatchObject({
    applied: expect.arrayContaining(["0012_last_execution_with_the_cursor"]),
  });
  const summary = await createRunHistory({ pool }).summary([attempted, never, gone]);
  expect(summary.get(attempted)).toEqual({
    lastScheduleTime: Date.parse(execution.last_schedule_time),
    lastSuccessTime: Date.parse(execution.last_success_time),
    last: {
      id: execution.id,
      runId: execution.run_id,
      status: "failed",
      httpStatus: 503,
      durationMs: 12,
      errorMessage: "no",
      executedAt: Date.parse(execution.executed_at),
      attempt: 2,
      trigger: "schedule",
      scheduledAt: Date.parse(execution.scheduled_at),
    },
  });
  for (const uid of [never, gone])
    expect(summary.get(uid)).toEqual({ lastScheduleTime: null, lastSuccessTime: null, last: null });
  await pool.end();
});

test("tables of a dump that was restored without its data are told from a fault of the migration", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  await admin(url, "delete from carillon_migrations");
  await expect(migrate({ url, appVersion: "1.0.0" })).rejects.toThrow(
    /^the migration failed: relation "accounts" already exists: it is [^\n]*empty database[^\n]*$/,
  );
});

test("a database that needs a newer program is refused, and left alone", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  await pool.query("update carillon_meta set value = '2.1.0' where key = 'min_app_version'");
  await expect(migrate({ url, appVersion: "2.0.9" })).rejects.toThrow(DatabaseTooNew);
  await expect(checkSchema({ pool, appVersion: "2.0.9" })).rejects.toThrow(
    /needs 2\.1\.0 or newer/,
  );
  await checkSchema({ pool, appVersion: "2.1.0" });
  await pool.end();
});

test.each(["WIN1252", "SQL_ASCII"])(
  "a database in %s is refused, and left alone",
  async (encoding) => {
    const { url } = await empty(`encoding '${encoding}' locale 'C' template template0`);
    const refused = await migrate({ url, appVersion: "1.0.0" }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(DatabaseNotUtf8);
    expect(refused).toMatchObject({ message: expect.stringContaining(encoding) });
    const pool = createPool({ url, applicationName: "test" });
    const { rows } = await pool.query("select from pg_class where relname = 'carillon_migrations'");
    expect(rows).toEqual([]);
    // As for a dump that was restored into such a database.
    await expect(checkSchema({ pool, appVersion: "1.0.0" })).rejects.toThrow(DatabaseNotUtf8);
    await pool.end();
  },
);

test("a release that is one behind works on a database that is ahead", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  await pool.query(
    "insert into carillon_migrations (name, run_on) values ('9999_of_the_next_release', now())",
  );
  await checkSchema({ pool, appVersion: "1.0.0" });
  expect(await migrate({ url, appVersion: "1.0.0" })).toEqual({ applied: [] });
  await pool.end();
});

test("a dump from a server that is further in its transactions: its jobs are listed once, and watched", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  const notifications = createNotifications({ url, applicationName: "test" });
  const jobs = createPostgresJobStore({ pool, notifications, timers });
  const { uid } = await jobs.create({ account: randomUUID(), id: "job-1", spec: cronSpec() });
  await pool.query("update jobs set changed_xid = '5000000000'");
  await pool.query("update carillon_meta set value = '4000000000' where key = 'jobs_purged_xid'");
  await migrate({ url, appVersion: "1.0.0" });
  const { position } = await jobs.list({ limit: 10 });
  const job = await jobs.create({ account: randomUUID(), id: "job-2", spec: cronSpec() });
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const event of jobs.watch(position, stop.signal)) {
    if (event.type === "changed") seen.push(event.job.uid);
    if (seen.includes(job.uid)) break;
  }
  stop.abort();
  expect(seen).not.toContain(uid);
  await notifications.close();
  await pool.end();
});

test("however many jobs such a dump has, no statement takes them all", async () => {
  const { url } = await empty();
  await migrate({ url, appVersion: "1.0.0" });
  const pool = createPool({ url, applicationName: "test" });
  await pool.query(
    `insert into jobs (account, id, spec, changed_xid)
     select uuidv7(), n::text, '{}', '5000000000' from generate_series(1, 5) as n`,
  );
  await forgetOtherClusters(pool, { size: 2 });
  const { rows } = await pool.query("select count(*) from jobs group by changed_xid order by 1");
  expect(rows.map(({ count }) => count)).toEqual([1, 2, 2]);
  await pool.end();
});

test("a database without our schema says what to do", async () => {
  const { url } = await empty();
  const pool = createPool({ url, applicationName: "test" });
  await expect(checkSchema({ pool, appVersion: "1.0.0" })).rejects.toThrow(DatabaseTooOld);
  await pool.end();
});

test("a role with a schema of its own has everything there, and may have nothing elsewhere", async () => {
  const { url } = await empty();
  const role = `team_${randomBytes(4).toString("hex")}`;
  await admin(url, `create role ${role} login password 'team'`);
  await admin(url, `create schema ${role} authorization ${role}`);
  await admin(url, `alter role ${role} set search_path = ${role}`);
  const own = urlAs(url, role, "team");
  const pool = createPool({ url: own, applicationName: "test" });
  try {
    await migrate({ url: own, appVersion: "1.0.0" });
    await checkSchema({ pool, appVersion: "1.0.0" });
    expect(await migrate({ url: own, appVersion: "1.0.0" })).toEqual({ applied: [] });
    const { rows } = await pool.query(
      "select distinct schemaname from pg_tables where tablename ~ '^(runs|carillon_.*)$'",
    );
    expect(rows).toEqual([{ schemaname: role }]);
  } finally {
    await pool.end();
    await admin(url, `drop owned by ${role} cascade`);
    await admin(url, `drop role ${role}`);
  }
});

test("a search path that leads nowhere is told so, whoever owns the database", async () => {
  const { url } = await empty();
  const lost = `${url}?options=-csearch_path%3Dnowhere`;
  await expect(migrate({ url: lost, appVersion: "1.0.0" })).rejects.toThrow(
    "no schema of the search_path",
  );
  await expect(migrate({ url, appVersion: "1.0.0" })).resolves.toBeDefined();
});

test("a role that may not create tables is told so, in one line", async () => {
  const { url } = await empty();
  const role = `limited_${randomBytes(4).toString("hex")}`;
  await admin(url, `create role ${role} login password 'limited'`);
  const limited = urlAs(url, role, "limited");
  try {
    await expect(migrate({ url: limited, appVersion: "1.0.0" })).rejects.toThrow(
      /^the migration failed: [^\n]*permission denied for schema public: the role of DATABASE_URL [^\n]*$/,
    );
  } finally {
    await admin(url, `drop role ${role}`);
  }
});

function notRefused(error: unknown): boolean {
  if (error instanceof RoleTooWeak) return false;
  throw error;
}

test.each([
  { role: "that may read and write alone", by: "grant all on schema public to ROLE" },
  { role: "that is a member of the owner", by: "grant OWNER to ROLE" },
  {
    role: "that is one without inheriting its rights",
    by: "grant create on schema public to ROLE; grant OWNER to ROLE with inherit false",
  },
  {
    role: "that becomes the owner at once",
    by: "grant OWNER to ROLE with inherit false; alter role ROLE set role = OWNER",
  },
  { role: "that was given the tables alone", by: "alter table executions owner to ROLE" },
  {
    role: "that was given the tables and the schema",
    by: "alter table executions owner to ROLE; grant create on schema public to ROLE",
  },
  { role: "that may do anything", by: "alter role ROLE superuser" },
])("a role $role is refused just when it could not make a month", async ({ by }) => {
  const { url } = await empty();
  const [role, owner] = ["role", "owner"].map((name) => `${name}_${randomUUID().slice(0, 8)}`);
  const roles = (text: string) =>
    text.replaceAll("ROLE", role ?? "").replaceAll("OWNER", owner ?? "");
  await migrate({ url, appVersion: "1.0.0" });
  await admin(url, roles("create role ROLE login password 'x'; create role OWNER"));
  await admin(
    url,
    roles("grant create on schema public to OWNER; alter table executions owner to OWNER"),
  );
  await admin(url, roles("grant all on all tables in schema public to ROLE, OWNER"));
  await admin(url, roles(by));
  const own = urlAs(url, role ?? "", "x");
  const pool = createPool({ url: own, applicationName: "test" });
  try {
    const year = "select executions_ensure_month(now() + interval '1 year')";
    const could = await pool.query(year).then(
      () => true,
      () => false,
    );
    const starts = [
      checkSchema({ pool, appVersion: "1.0.0" }),
      migrate({ url: own, appVersion: "1.0.0" }),
    ].map((start) => start.then(() => true, notRefused));
    expect(await Promise.all(starts)).toEqual([could, could]);
  } finally {
    await pool.end();
    await admin(url, roles("drop owned by ROLE, OWNER; drop role ROLE, OWNER"));
  }
});

const versions = [
  { a: "0.1.0", b: "0.1.0", sign: 0 },
  { a: "0.10.0", b: "0.9.9", sign: 1 },
  { a: "1.0.0", b: "1.0.1", sign: -1 },
  { a: "1.2.0-rc.1", b: "1.2.0", sign: 0 },
];
for (const { a, b, sign } of versions)
  test(`${a} against ${b}`, () => {
    expect(Math.sign(compareVersions(a, b))).toBe(sign);
  });
