import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import { PositionExpired } from "../../../src/domain/ports/job-store.ts";
import { migrate } from "../../../src/postgres/migrate.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import {
  createPool,
  transaction,
  type Pool,
  type PoolOptions,
} from "../../../src/postgres/pool.ts";
import { createPostgresJobIndex } from "../../../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";

/** A database with a store; it is closed at the end of the test. */
async function opened(options: Pick<PoolOptions, "plans"> = {}) {
  const database = await createTestDatabase();
  const pool = database.pool(options);
  const { store, ending, end } = storeOn({ pool, url: database.url });
  onTestFinished(async () => {
    await end();
    await database.drop();
  });
  return { pool, store, ending };
}

function storeOn({ pool, url }: { pool: Pool; url: string }) {
  const notifications = createNotifications({ url, applicationName: "test" });
  const ending = new AbortController();
  const end = async () => {
    ending.abort();
    await notifications.close();
  };
  return { store: createPostgresJobStore({ pool, notifications, timers }), ending, end };
}

test("what was restored behind their backs is read anew by those who watch and those who look", async () => {
  const { pool, store, ending } = await opened();
  const index = createPostgresJobIndex({ pool, monotonic });
  const account = randomUUID();
  const ids = async () => (await index.jobs(account)).map(({ id }) => id);
  const watched = async (position: string) => {
    for await (const { type } of store.watch(position, ending.signal)) return type;
    return "nothing";
  };

  await store.create({ account, id: "saved", spec: cronSpec() });
  await pool.query("create table backup as select * from jobs");
  await store.create({ account, id: "forgotten", spec: cronSpec() });
  expect(await ids()).toEqual(["saved", "forgotten"]);
  const { position } = await store.list({ limit: 1 });
  await transaction(pool, (client) =>
    client.query("truncate jobs; insert into jobs select * from backup"),
  );
  await expect(watched(position)).rejects.toThrow(PositionExpired);
  expect(await ids()).toEqual(["saved"]);

  // As of another server that has taken over, and has got as far.
  const now = (await store.list({ limit: 1 })).position;
  await expect(watched(now.replace(/^[\d.]+/, "1795385240.5"))).rejects.toThrow(PositionExpired);
  await store.create({ account, id: "next", spec: cronSpec() });
  expect(await watched(now)).toBe("changed");
});

test("of a server that has recovered from a crash, which gives out transaction ids again, nothing stays unseen", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "carillon-crash-"));
  const settings = { fsync: "off", wal_writer_delay: "10s" };
  const server = await startEmbeddedPostgres({ dataDir, settings });
  await migrate({ url: server.url, appVersion: "1.0.0" });
  const pool = createPool({ url: server.url, applicationName: "test" });
  const { store, ending, end } = storeOn({ pool, url: server.url });
  onTestFinished(async () => {
    await end();
    await pool.end();
    await server.stop();
    await rm(dataDir, { recursive: true });
  });
  const account = randomUUID();
  const spendIds = async () => {
    for (let n = 0; n < 10; n += 1) await pool.query("select pg_notify('nobody', '')");
  };
  const index = createPostgresJobIndex({ pool, monotonic });
  const ids = async () => (await index.jobs(account)).map(({ id }) => id);

  await store.create({ account, id: "before", spec: cronSpec() });
  await spendIds();
  expect(await ids()).toEqual(["before"]);
  const { position } = await store.list({ limit: 1 });
  const lastRecovery = async () => {
    const { rows } = await pool.query("select stats_reset::text from pg_stat_bgwriter");
    return rows;
  };
  const earlier = await lastRecovery();
  const { rows } = await pool.query<{ pid: number }>("select pg_backend_pid() as pid");
  // As when the system is out of memory: the server ends all sessions, and recovers.
  process.kill(rows[0]?.pid ?? 0, "SIGKILL");
  await expect.poll(() => lastRecovery().catch(() => earlier)).not.toEqual(earlier);
  await store.create({ account, id: "after", spec: cronSpec() });
  await spendIds();
  expect(await ids()).toEqual(["before", "after"]);
  const watching = store.watch(position, ending.signal);
  await expect(watching[Symbol.asyncIterator]().next()).rejects.toThrow(PositionExpired);
});

test("where nothing is written, a watch tells at once that the store answers", async () => {
  const { store, ending } = await opened();
  const { position } = await store.list({ limit: 1 });
  // The caller takes silence for an outage.
  for await (const { type } of store.watch(position, ending.signal)) {
    expect(type).toBe("bookmark");
    return;
  }
});

test("a watch that follows a list of several pages tells of what was changed between them", async () => {
  const { store, ending } = await opened();
  const account = randomUUID();
  const made = [];
  for (const id of ["one", "two"]) made.push(await store.create({ account, id, spec: cronSpec() }));
  const first = await store.list({ limit: 1 });
  expect(first.jobs.map(({ id }) => id)).toEqual(["one"]);
  const [one] = made;
  if (!one) throw new Error("just made");
  await store.update(one, { ...cronSpec(), suspend: true });
  const second = await store.list({ limit: 1, continue: first.continue });
  expect(second.jobs.map(({ id }) => id)).toEqual(["two"]);
  for await (const event of store.watch(second.position, ending.signal)) {
    if (event.type !== "changed" || event.job.id !== "one") continue;
    expect(event.job.spec.suspend).toBe(true);
    return;
  }
});

test("more jobs than a look reads at a time are all there, made at once or changed meanwhile", async () => {
  const { pool, store } = await opened();
  const account = randomUUID();
  await store.create({ account, id: "first", spec: cronSpec() });
  const index = createPostgresJobIndex({ pool, monotonic });
  expect(await index.jobs(account)).toHaveLength(1);
  await pool.query(
    "insert into jobs (account, id, spec) select $1, 'job-' || n, $2 from generate_series(1, 1001) n",
    [account, cronSpec()],
  );
  expect(await index.jobs(account)).toHaveLength(1_002);

  const first = await store.get(account, "first");
  if (!first) throw new Error("made above");
  let pages = 0;
  const read = aroundQueries(pool, async (ask) => {
    const page = await ask();
    pages += 1;
    if (pages === 1) await store.update(first, { ...cronSpec(), name: "changed meanwhile" });
    return page;
  });
  const anew = createPostgresJobIndex({ pool: read, monotonic });
  expect((await anew.jobs(account))[0]?.spec.name).toBe(first.spec.name);
  expect((await anew.jobs(account))[0]?.spec.name).toBe("changed meanwhile");
});

test("a watch tells of more changes than a look reads at a time, whichever transaction changed which job", async () => {
  const { pool, store, ending } = await opened();
  const COUNT = 1_200;
  await pool.query(
    "insert into jobs (account, id, spec) select $1, n, $2 from generate_series(1, $3::int) as n",
    [randomUUID(), cronSpec(), COUNT],
  );
  const { position } = await store.list({ limit: 1 });
  // The later jobs first.
  for (const which of ["> 600", "<= 600"])
    await pool.query(
      `update jobs set version = version + 1, changed_xid = pg_current_xact_id() where id::int ${which}`,
    );
  const changed = new Set<string>();
  for await (const event of store.watch(position, ending.signal)) {
    if (event.type === "bookmark") break;
    if (event.type === "changed") changed.add(event.job.uid);
  }
  expect(changed.size).toBe(COUNT);
});

test("a look that fails does not fail the one behind it", async () => {
  const { pool, store } = await opened();
  const account = randomUUID();
  await store.create({ account, id: "one", spec: cronSpec() });
  let tries = 0;
  const away = aroundQueries(pool, async (ask) => {
    tries += 1;
    if (tries === 1) throw new DependencyUnavailable("postgres");
    return ask();
  });
  const index = createPostgresJobIndex({ pool: away, monotonic });
  const [failed, next] = await Promise.allSettled([index.jobs(account), index.jobs(account)]);
  expect(failed.status).toBe("rejected");
  expect(next).toMatchObject({ status: "fulfilled", value: [{ id: "one" }] });
});

test("behind a transaction that stays open each change is read once, and its own when it is over", async () => {
  const { pool, store, ending } = await opened();
  const open = await pool.connect();
  onTestFinished(() => open.release());
  const account = randomUUID();
  await open.query("begin");
  await open.query("insert into jobs (account, id, spec) values ($1, 'late', $2)", [
    account,
    cronSpec(),
  ]);

  const { position } = await store.list({ limit: 1 });
  const events = store.watch(position, ending.signal)[Symbol.asyncIterator]();
  const next = async (): Promise<string | undefined> => {
    for (;;) {
      const { value, done } = await events.next();
      if (done === true) return undefined;
      if (value.type === "changed") return value.job.id;
    }
  };
  let read = 0;
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<{ rows: object[] }>;
  pool.query = (async (...given: unknown[]) => {
    const result = await query(...given);
    read += result.rows.filter((row) => "uid" in row && row.uid !== null).length;
    return result;
  }) as typeof pool.query;
  const index = createPostgresJobIndex({ pool, monotonic });
  expect(await index.jobs(account)).toEqual([]);
  for (let n = 1; n <= 10; n += 1) {
    const job = await store.create({ account, id: `job-${n}`, spec: cronSpec() });
    expect(await next()).toBe(job.id);
    expect(await index.jobs(account)).toHaveLength(n);
  }
  // Four reads for each job: by the insert, as a changed uid, as a whole job, and by the index.
  expect(read).toBe(40);
  await open.query("commit");
  expect(await next()).toBe("late");
  expect(await index.jobs(account)).toHaveLength(11);
  expect(read).toBe(43);
});

test("an index sees nothing of what another account had under way at its last look", async () => {
  const { pool, store } = await opened();
  const [mine, theirs] = [randomUUID(), randomUUID()];
  const open = await openTransaction(
    pool,
    "insert into jobs (account, id, spec) values ($1, 'theirs', $2)",
    [theirs, cronSpec()],
  );
  // A transaction that began later and is over: without it, the other's would count as not begun.
  await store.create({ account: mine, id: "mine", spec: cronSpec() });
  const index = createPostgresJobIndex({ pool, monotonic });
  const ids = async (account: string) => (await index.jobs(account)).map(({ id }) => id);
  expect([await ids(mine), await ids(theirs)]).toEqual([["mine"], []]);
  await open.commit();
  expect([await ids(mine), await ids(theirs)]).toEqual([["mine"], ["theirs"]]);
});

test("an index reads an account's jobs, and many changes of them, a thousand at a time", async () => {
  const { pool } = await opened();
  const COUNT = 2_500;
  const account = randomUUID();
  await pool.query(
    `insert into jobs (account, id, spec, created_at)
     select $1, 'job-' || n, $2, now() + n % 7 * interval '1 second' from generate_series(1, $3::int) as n`,
    [account, cronSpec(), COUNT],
  );
  const names = async () =>
    (
      await pool.query<{ name: string }>(
        `select id || ' ' || (spec ->> 'name') as name from jobs
        where account = $1 and deleted_at is null order by created_at, id collate "C"`,
        [account],
      )
    ).rows.map(({ name }) => name);
  const before = await names();
  const reads: number[] = [];
  const counting = aroundQueries(pool, async (ask) => {
    const result = await ask();
    reads.push(result.rows.length);
    return result;
  });
  const index = createPostgresJobIndex({ pool: counting, monotonic });
  const listed = async () =>
    (await index.jobs(account)).map(({ id, spec }) => `${id} ${spec.name}`);
  expect(await listed()).toEqual(before);
  await pool.query(
    `update jobs set spec = jsonb_set(spec, '{name}', '"new"'), generation = generation + 1,
                     changed_xid = pg_current_xact_id()`,
  );
  await pool.query(
    "update jobs set deleted_at = now(), changed_xid = pg_current_xact_id() where id < 'job-2'",
  );
  const after = await names();
  expect(after.length).toBeLessThan(COUNT);
  expect(await listed()).toEqual(after);
  expect(Math.max(...reads)).toBe(1_000);
});

test("of what one transaction has done to many jobs, each page reads no more than its own", async () => {
  // With the plans for many jobs: with so few, PostgreSQL might as well read all.
  const { pool, store, ending } = await opened({ plans: "fixed" });
  const COUNT = 3_500;
  const { position } = await store.list({ limit: 1 });
  await pool.query(
    `insert into jobs (account, id, spec, deleted_at)
     select $1, 'job-' || n, $2, case when n % 7 > 0 then now() end from generate_series(1, $3::int) as n`,
    [randomUUID(), cronSpec(), COUNT],
  );
  const said: [text: string, values: unknown[]][] = [];
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<{ rows: object[] }>;
  pool.query = (async (text: string, values: unknown[]) => {
    if (text.includes("changed_xid >= $2")) said.push([text, values]);
    return query(text, values);
  }) as typeof pool.query;
  const seen = { changed: new Set<string>(), deleted: new Set<string>() };
  for await (const event of store.watch(position, ending.signal)) {
    if (event.type === "bookmark") break;
    seen[event.type].add(event.type === "changed" ? event.job.uid : event.uid);
  }
  expect([seen.changed.size, seen.deleted.size]).toEqual([COUNT / 7, (COUNT / 7) * 6]);

  expect(said).toHaveLength(4);
  for (const [text, values] of said) {
    const { rows } = await query(`explain (analyze, costs off) ${text}`, values);
    const plan = rows.flatMap((row) => Object.values(row) as string[]);
    expect(plan.filter((line) => Number(/rows=(\d+)/.exec(line)?.[1]) > 1_000)).toEqual([]);
  }
});
