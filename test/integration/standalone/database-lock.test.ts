import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createClient } from "../../../src/postgres/pool.ts";
import { lockDatabase, type DatabaseLock } from "../../../src/standalone/database-lock.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";

let database: TestDatabase;
let lock: DatabaseLock;
let news: string[];
let watcher: ReturnType<typeof createClient>;

beforeAll(async () => {
  database = await createTestDatabase();
  watcher = createClient({ url: database.url, applicationName: "watcher" });
  await watcher.connect();
});
afterAll(async () => {
  await watcher.end();
  await database.drop();
});

const take = (url = database.url) =>
  lockDatabase({
    url,
    onLost: () => news.push("lost"),
    onTaken: () => news.push("taken"),
    onHeld: () => news.push("held"),
  });
beforeEach(async () => {
  news = [];
  lock = await take();
});
afterEach(() => lock.release());

/** Ends the connections, as a restart of PostgreSQL does. */
const cut = () =>
  admin(
    database.url,
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'carillon standalone lock' and datname = current_database()",
  );

test("a connection that breaks is made anew: a second standalone is refused again", async () => {
  for (const times of [1, 2]) {
    await cut();
    await until("the lock is held again", () => news.length === 2 * times);
  }
  expect(news).toEqual(["lost", "held", "lost", "held"]);
  await expect(take()).rejects.toThrow("another Carillon standalone is running on this database");
});

test("somebody who took the database meanwhile is told of once, and followed", async () => {
  const other = createClient({ url: database.url, applicationName: "the other one" });
  await other.connect();
  const mine = "locktype = 'advisory' and granted";
  const here = "database = (select oid from pg_database where datname = current_database())";
  const taken = other.query(
    `select pg_advisory_lock(classid::int, objid::int) from pg_locks where ${mine} and ${here}`,
  );
  await until("the other one waits for it", async () => {
    const { rows } = await watcher.query(
      `select from pg_locks where locktype = 'advisory' and not granted and ${here}`,
    );
    return rows.length > 0;
  });
  await cut();
  await taken;
  const tries = new Set<string>();
  await until("it is asked for again and again", async () => {
    const { rows } = await watcher.query<{ at: string }>(
      "select query_start::text as at from pg_stat_activity where application_name = 'carillon standalone lock' and datname = current_database()",
    );
    for (const { at } of rows) tries.add(at);
    return tries.size > 2;
  });
  expect(news).toEqual(["lost", "taken"]);
  await other.end();
  await until("the lock is held again", () => news.length === 3);
  expect(news).toEqual(["lost", "taken", "held"]);
});

test("what is given up is not lost", async () => {
  await lock.release();
  await new Promise(setImmediate);
  expect(news).toEqual([]);
});

test("one that is about to end is waited for", async () => {
  const next = take();
  await until("the next one has been refused once", async () => {
    const { rows } = await watcher.query(
      "select from pg_stat_activity where query ~ 'pg_try_advisory' and state = 'idle' and datname = current_database()",
    );
    return rows.length === 2;
  });
  await lock.release();
  lock = await next;
  expect(news).toEqual([]);
});

test("PostgreSQL is asked to look after who holds it: a machine may go without a goodbye", async () => {
  await lock.release();
  const { hostname, port } = new URL(database.url);
  let said = "";
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname);
    for (const socket of [client, server]) socket.on("error", () => undefined);
    client.on("data", (data) => (said += data.toString("latin1")));
    client.pipe(server).pipe(client);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const proxied = new URL(database.url);
  proxied.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  lock = await take(proxied.href);
  expect(said).toMatch(/set tcp_keepalives_idle = 10;.*pg_try_advisory_lock/s);
  proxy.close();
});
