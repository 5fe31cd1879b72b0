import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  clientConfig,
  createPool,
  fixPlans,
  transaction,
  type Pool,
  type Queryable,
} from "../../../src/postgres/pool.ts";
import { sqlState } from "../../../src/postgres/sql-state.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import {
  createEmptyDatabase,
  createTestDatabase,
  urlAs,
  type TestDatabase,
} from "../../postgres/database.ts";
import { createLimitedRole } from "../../postgres/limited-role.ts";

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool({ applicationName: "pool test", max: 2 });
  return () => database.drop();
});

test("values: int8 is a number, a moment is epoch milliseconds", async () => {
  const at = Date.UTC(2026, 10, 21, 12, 0, 0, 123);
  const { rows } = await pool.query(
    "select 9007199254740991::int8 as big, $1::timestamptz as at, current_setting('application_name') as name",
    [new Date(at)],
  );
  expect(rows).toEqual([{ big: Number.MAX_SAFE_INTEGER, at, name: "pool test" }]);
  await expect(pool.query("select 9007199254740993::int8 as big")).rejects.toThrow(RangeError);
});

/** The settings enable_seqscan, jit and plan_cache_mode. */
async function planning(of: Queryable): Promise<string[]> {
  const { rows } = await of.query<{ setting: string }>(
    `select setting from pg_settings
      where name in ('enable_seqscan', 'jit', 'plan_cache_mode') order by name`,
  );
  return rows.map(({ setting }) => setting);
}

test("plans that are fixed are those of a session, or of one transaction", async () => {
  const fixed = ["off", "off", "force_generic_plan"];
  const runs = createPool({ url: database.url, applicationName: "runs", max: 1, plans: "fixed" });
  expect(await planning(runs)).toEqual(fixed);
  await runs.end();
  const other = createPool({ url: database.url, applicationName: "other", max: 1 });
  const before = await planning(other);
  expect(before[0]).toBe("on");
  await transaction(other, async (client) => {
    await fixPlans(client);
    expect(await planning(client)).toEqual(fixed);
  });
  expect(await planning(other)).toEqual(before);
  await other.end();
});

test("options in the URL are joined with ours: a session stays in UTC", async () => {
  const url = `${database.url}?options=-c%20search_path%3Dpg_temp%20-c%20timezone%3DAsia/Kolkata`;
  const own = createPool({ url, applicationName: "own options", max: 1 });
  const { rows } = await own.query(
    "select current_setting('search_path') as path, current_setting('timezone') as zone",
  );
  expect(rows).toEqual([{ path: "pg_temp", zone: "UTC" }]);
  await own.end();
});

const sessionOf = (of: Queryable) =>
  of.query(
    `select current_setting('transaction_isolation') as level,
            current_setting('idle_session_timeout') as idle`,
  );

test("a role's defaults neither bear on what a statement sees nor end sessions", async () => {
  const theirs = ["default_transaction_isolation=serializable", "idle_session_timeout=5s"];
  const options = theirs.map((setting) => `-c ${setting}`).join(" ");
  const url = `${database.url}?options=${encodeURIComponent(options)}`;
  const own = createPool({ url, applicationName: "own defaults", max: 1 });
  const ours = [{ level: "read committed", idle: "0" }];
  expect((await sessionOf(own)).rows).toEqual(ours);
  expect((await transaction(own, sessionOf)).rows).toEqual(ours);
  await own.end();
});

test("a role's defaults change no value on its way", async () => {
  const theirs = ["extra_float_digits=-15", "array_nulls=off", "bytea_output=escape"];
  const options = theirs.map((setting) => `-c ${setting}`).join(" ");
  const url = `${database.url}?options=${encodeURIComponent(options)}`;
  const own = createPool({ url, applicationName: "own defaults", max: 1 });
  const bytes = Buffer.from([0, 92, 255]);
  const { rows } = await own.query(
    "select 1763835000123.25::float8 as float, $1::int[] as gaps, $2::bytea as bytes",
    [[1, null], bytes],
  );
  expect(rows).toEqual([{ float: 1763835000123.25, gaps: [1, null], bytes }]);
  await own.end();
});

test.each([
  { mode: "require", becomes: "verify-full" },
  { mode: "no-verify", becomes: "no-verify" },
  { mode: "require&uselibpqcompat=true", becomes: "require" },
])("TLS, $mode: the certificate is checked with this and the next major of pg", (row) => {
  const given = `postgres://u:p%2Fw@h/d?sslmode=${row.mode}`;
  const { connectionString = "" } = clientConfig({ url: given, applicationName: "tls" });
  expect(new URL(connectionString).searchParams.get("sslmode")).toBe(row.becomes);
  expect(connectionString).toMatch(/^postgres:\/\/u:p%2Fw@h\/d\?/);
});

const down = [
  { why: "nothing listens", url: "postgres://a@127.0.0.1:1/b" },
  { why: "the name does not resolve", url: "postgres://a@carillon.invalid/b" },
];
for (const { why, url } of down)
  test(`unavailable: ${why}`, async () => {
    const broken = createPool({ url, applicationName: "test" });
    await expect(broken.query("select 1")).rejects.toThrow(DependencyUnavailable);
    await expect(transaction(broken, async () => 1)).rejects.toMatchObject({
      dependency: "postgres",
    });
    await broken.end();
  });

const states = ["57P01", "57P02", "57P03", "08006", "53300", "58030", "25006", "25P03", "25P04"];
for (const state of states)
  test(`unavailable: SQLSTATE ${state}`, async () => {
    const raise = `do $$ begin raise exception 'x' using errcode = '${state}'; end $$`;
    await expect(pool.query(raise)).rejects.toThrow(DependencyUnavailable);
    await expect(transaction(pool, (client) => client.query(raise))).rejects.toThrow(
      DependencyUnavailable,
    );
  });

test("a mistake of ours is not an outage", async () => {
  await expect(pool.query("select nonsense")).rejects.not.toBeInstanceOf(DependencyUnavailable);
});

test("the pool exhausted is an outage, and passes", async () => {
  const small = createPool({
    url: database.url,
    applicationName: "test",
    max: 1,
    // Also the limit of the first connection, for which a busy machine needs time.
    connectTimeoutMs: 2_000,
  });
  const client = await small.connect();
  await expect(small.query("select 1")).rejects.toThrow(DependencyUnavailable);
  client.release();
  await small.query("select 1");
  await small.end();
});

const many = (on: Pool) =>
  Promise.all(Array.from({ length: 20 }, () => on.query("select pg_sleep(0.01)")));

describe("on a server that lets nobody else in", () => {
  test("a pool makes do with those that it has, and grows when it may", async () => {
    const few = await createLimitedRole(database.url, 2);
    const crowded = createPool({ url: few.url, applicationName: "crowded" });
    await Promise.all([1, 2].map(() => crowded.query("select 1")));
    await many(crowded);
    await Promise.all(
      [1, 2, 3].map(() => transaction(crowded, (client) => client.query("select 1"))),
    );
    expect(crowded.totalCount).toBe(2);
    await pool.query(`alter role ${new URL(few.url).username} connection limit 4`);
    await expect
      .poll(async () => {
        await many(crowded);
        return crowded.totalCount;
      })
      .toBe(4);
    await crowded.end();
    await few.drop();
  });

  test("one that has none borrows, or is told", async () => {
    const none = await createLimitedRole(database.url, 0);
    const options = { url: none.url, applicationName: "crowded out" };
    const [borrowing, alone] = [createPool({ ...options, lender: pool }), createPool(options)];
    await many(borrowing);
    await transaction(borrowing, (client) => client.query("select 1"));
    expect(borrowing.totalCount).toBe(0);
    expect(pool.idleCount).toBe(pool.totalCount);
    await expect(alone.query("select 1")).rejects.toThrow(DependencyUnavailable);
    await expect(transaction(alone, async () => 1)).rejects.toThrow(DependencyUnavailable);
    for (const one of [borrowing, alone]) await one.end();
    await none.drop();
  });

  test("one that ends when all have gone serves those who are there", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "carillon-test-smart-"));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: "off" } });
    onTestFinished(() => server.stop());
    const [there, late] = ["there", "late"].map((applicationName) =>
      createPool({ url: server.url, applicationName }),
    ) as [Pool, Pool];
    await there.query("select 1");
    process.kill(server.pid, "SIGTERM");
    await expect
      .poll(() => late.query("select 1").catch((error: unknown) => sqlState(error)))
      .toBe("57P03");
    await many(there);
    expect(there.totalCount).toBe(1);
    for (const one of [there, late]) await one.end();
  });
});

test("waiting too long for a lock is an outage, not a fault of the statement", async () => {
  await pool.query("create table locked (n int)");
  const impatient = createPool({ url: database.url, applicationName: "test", lockTimeoutMs: 50 });
  const holder = await openTransaction(pool, "lock table locked");
  await expect(impatient.query("select from locked")).rejects.toThrow(DependencyUnavailable);
  await holder.rollback();
  await impatient.query("select from locked");
  await impatient.end();
});

test("a session that the server ends is replaced", async () => {
  const errors: Error[] = [];
  const victim = createPool({
    url: database.url,
    applicationName: "victim",
    onError: (error) => errors.push(error),
  });
  await victim.query("select 1");
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'victim' and datname = current_database()`,
  );
  await expect.poll(() => errors.length).toBe(1);
  await victim.query("select 1");
  await victim.end();
});

const refusals = [
  { refuse: "alter role ROLE nologin", again: "alter role ROLE login" },
  { refuse: "alter role ROLE password 'new'", again: "alter role ROLE password 'old'" },
  {
    refuse: "revoke connect on database NAME from public",
    again: "grant connect on database NAME to public",
  },
  {
    refuse: "alter database NAME allow_connections false",
    again: "alter database NAME allow_connections true",
  },
];

test.each(refusals)(
  "refused after it was let in, a process waits as in an outage: $refuse",
  async ({ refuse, again }) => {
    const empty = await createEmptyDatabase();
    const name = new URL(empty.url).pathname.slice(1);
    const role = `rotated_${randomBytes(4).toString("hex")}`;
    const say = (statement: string) =>
      pool.query(statement.replaceAll("ROLE", role).replaceAll("NAME", name));
    await say("create role ROLE login password 'old'");
    const options = { url: urlAs(empty.url, role, "old"), applicationName: role, max: 1 };
    const [known, unused] = [createPool(options), createPool(options)];
    await known.query("select 1");
    await say(refuse);
    await say(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'ROLE'",
    );
    await expect.poll(() => known.totalCount).toBe(0);
    for (const one of [known, unused]) {
      await expect(one.query("select 1")).rejects.toThrow(DependencyUnavailable);
      await expect(transaction(one, async () => 1)).rejects.toThrow(DependencyUnavailable);
    }
    await say(again);
    for (const one of [known, unused]) {
      await one.query("select 1");
      await one.end();
    }
    await empty.drop();
    await say("drop role ROLE");
  },
);

test("refused at its first connection, a process is told why", async () => {
  const role = `stranger_${randomBytes(4).toString("hex")}`;
  await pool.query(`create role ${role} nologin password 'old'`);
  const url = urlAs(database.url, role, "old");
  const stranger = createPool({ url, applicationName: role, max: 1 });
  await expect(stranger.query("select 1")).rejects.toThrow(/not permitted to log in/);
  await stranger.end();
  await pool.query(`drop role ${role}`);
});

test.each<{ of: string; ask: (of: Pool, hang: () => void) => Promise<unknown> }>([
  {
    of: "statement",
    ask: (of, hang) => {
      hang();
      return of.query("select 1");
    },
  },
  {
    of: "transaction",
    ask: (of, hang) =>
      transaction(of, async (client) => {
        await client.query("select 1");
        hang();
        await client.query("select 2");
      }),
  },
])("a server behind a cut network is noticed, by a $of's time limit", async ({ ask }) => {
  const target = new URL(database.url);
  const { proxy, port, hang } = await proxyTo(Number(target.port), target.hostname);
  target.hostname = "127.0.0.1";
  target.port = String(port);
  const cut = createPool({ url: target.href, applicationName: "test", statementTimeoutMs: 1_000 });
  await cut.query("select 1");
  const began = performance.now();
  await expect(ask(cut, hang)).rejects.toThrow(DependencyUnavailable);
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(cut.totalCount).toBe(0);
  proxy.close();
  await cut.end();
});

test("a transaction commits whole or not at all", async () => {
  await pool.query("create table t (n int primary key)");
  await transaction(pool, (client) => client.query("insert into t values (1)"));
  const failing = transaction(pool, async (client) => {
    await client.query("insert into t values (2)");
    await client.query("insert into t values (1)");
  });
  await expect(failing).rejects.toThrow(/duplicate key/);
  expect((await pool.query("select n from t")).rows).toEqual([{ n: 1 }]);
});

test("of a server that takes no writes any more no connection is kept: the name may lead to another", async () => {
  const one = createPool({ url: database.url, applicationName: "test", max: 1 });
  onTestFinished(() => one.end());
  await one.query("create table w (n int primary key)");
  const write = (n: number) =>
    transaction(one, (client) => client.query("insert into w values ($1)", [n]));
  await one.query("set default_transaction_read_only = on");
  await expect(write(1)).rejects.toThrow(DependencyUnavailable);
  await write(2);
  await one.query("set default_transaction_read_only = on");
  const once = one.query("insert into w values (3)");
  await expect(once).rejects.toThrow(DependencyUnavailable);
  await one.query("insert into w values (4)");
  expect((await one.query("select n from w order by n")).rows).toEqual([{ n: 2 }, { n: 4 }]);
});

test("two transactions that deadlock both happen", async () => {
  await pool.query("create table d (n int primary key, hits int default 0)");
  await pool.query("insert into d values (1), (2)");
  let entered = 0;
  const both = Promise.withResolvers<void>();
  const cross = (first: number, second: number) =>
    transaction(pool, async (client) => {
      await client.query("update d set hits = hits + 1 where n = $1", [first]);
      entered += 1;
      if (entered === 2) both.resolve();
      await both.promise;
      await client.query("update d set hits = hits + 1 where n = $1", [second]);
    });
  await Promise.all([cross(1, 2), cross(2, 1)]);
  expect((await pool.query("select hits from d order by n")).rows).toEqual([
    { hits: 2 },
    { hits: 2 },
  ]);
});

/** A TCP proxy that can stop passing bytes without closing anything, as if a cable was cut. */
async function proxyTo(
  port: number,
  host: string,
): Promise<{ proxy: Server; port: number; hang: () => void }> {
  const { connect } = await import("node:net");
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    const server = connect(port, host);
    sockets.push(client, server);
    client.pipe(server).pipe(client);
    for (const socket of [client, server]) socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const hang = () => {
    for (const socket of sockets) {
      socket.unpipe();
      socket.pause();
    }
  };
  return { proxy, port: address.port, hang };
}
