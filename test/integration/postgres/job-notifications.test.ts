import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import {
  createLedgerNews,
  createJobNotifier,
  notifyJobs,
} from "../../../src/postgres/job-notifications.ts";
import {
  CLOSED_CHANNEL,
  createNotifications,
  CURSORS_CHANNEL,
  type Notifications,
} from "../../../src/postgres/notifications.ts";
import type { Pool, Queryable } from "../../../src/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { until } from "../../until.ts";

let database: TestDatabase;
let pool: Pool;
let notifications: Notifications;
/** The news received, in order; undefined: some may have been lost. */
let cursors: (readonly string[] | undefined)[];
let closed: (readonly string[] | undefined)[];

beforeEach(async () => {
  database = await createTestDatabase();
  const { url } = database;
  pool = database.pool({ max: 4 });
  notifications = createNotifications({ url, applicationName: "listener" });
  [cursors, closed] = [[], []];
  const news = createLedgerNews({ notifications });
  news.onCursors((uids) => void cursors.push(uids));
  news.onClosed((uids) => void closed.push(uids));
  await until("listening", () => cursors.length > 0 && closed.length > 0);
  [cursors, closed] = [[], []];
});

afterEach(async () => {
  await notifications.close();
  await database.drop();
});

test("a herd of jobs is told in few notifications, each job once, on its own channel", async () => {
  const uids = Array.from({ length: 1_001 }, () => randomUUID());
  await notifyJobs(pool, CURSORS_CHANNEL, [...uids, ...uids]);
  await until("all", () => cursors.flat().length >= uids.length);
  expect(cursors.flat()).toEqual(uids);
  expect(cursors).toHaveLength(6);
  expect(closed).toEqual([]);
  await notifyJobs(pool, CLOSED_CHANNEL, []);
});

test("what is told at the same time goes together, whatever the channel", async () => {
  let statements = 0;
  const counted = {
    query: (text: string, values: unknown[]) => {
      statements += 1;
      return pool.query(text, values);
    },
  } as unknown as Queryable;
  const notifier = createJobNotifier({ database: counted });
  const uids = Array.from({ length: 50 }, () => randomUUID());
  for (const uid of uids) notifier.notify(CLOSED_CHANNEL, [uid, uid]);
  notifier.notify(CURSORS_CHANNEL, uids.slice(0, 2));
  notifier.notify("nobody's", []);
  await until("all", () => closed.length > 0 && cursors.length > 0);
  expect([closed, cursors]).toEqual([[uids], [uids.slice(0, 2)]]);
  expect(statements).toBe(1);
  // Afterwards no statement is under way, so the next news need one of their own.
  notifier.notify(CLOSED_CHANNEL, ["later"]);
  await until("more", () => closed.length > 1);
  expect(statements).toBe(2);
});

test("a listener that lost its connection is told that it may have missed some", async () => {
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'listener' and datname = current_database()`,
  );
  await until("listening again", () => cursors.includes(undefined));
  await notifyJobs(pool, CURSORS_CHANNEL, ["after"]);
  await until("heard", () => cursors.flat().includes("after"));
  expect(closed).toEqual([undefined]);
});

test("who begins to listen later is told, once it does, that it may have missed some", async () => {
  const late: (string | undefined)[] = [];
  notifications.on("late", (payload) => void late.push(payload));
  await until("listening", () => late.includes(undefined));
  await pool.query("select pg_notify('late', 'news')");
  await until("heard", () => late.includes("news"));
  expect(late).toEqual([undefined, "news"]);
});

test("who begins to listen while the connection is being made is told once as well", async () => {
  const others = createNotifications({ url: database.url, applicationName: "others" });
  const late: (string | undefined)[] = [];
  others.on("early", () => others.on("late", (payload) => void late.push(payload)));
  await until("listening", () => late.includes(undefined));
  await pool.query("select pg_notify('late', 'news')");
  await until("heard", () => late.includes("news"));
  expect(late).toEqual([undefined, "news"]);
  await others.close();
});

test("what could not be told while the database was away is told with the next news", async () => {
  let tries = 0;
  const away = {
    query: async (text: string, values: unknown[]) => {
      tries += 1;
      if (tries === 1) throw new DependencyUnavailable("postgres");
      return pool.query(text, values);
    },
  } as unknown as Queryable;
  const notifier = createJobNotifier({ database: away });
  notifier.notify(CLOSED_CHANNEL, ["a"]);
  await until("it has failed", () => tries === 1);
  notifier.notify(CLOSED_CHANNEL, ["b"]);
  await until("b", () => closed.flat().includes("b"));
  expect(closed).toEqual([["a", "b"]]);
});

test("a connection whose server is gone without a goodbye is found out, and made anew", async () => {
  const heard: (string | undefined)[] = [];
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on("warning", onWarning);
  const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.port = String(proxy.port);
  url.searchParams.set("query_timeout", "1000");
  const forsaken = createNotifications({
    url: url.href,
    applicationName: "forsaken",
    checkMs: 50,
  });
  try {
    forsaken.on("one", (payload) => void heard.push(payload));
    await until("listening", () => heard.length > 0);
    proxy.forsake();
    heard.length = 0;
    await until("listening again", () => heard.includes(undefined));
    await pool.query("select pg_notify('one', 'news')");
    await expect.poll(() => heard).toContain("news");
    // Of statements that do not wait for each other, which pg will refuse.
    expect(warnings).toEqual([]);
  } finally {
    process.off("warning", onWarning);
    await proxy.close();
    await forsaken.close();
  }
});

test("a connection on which only some could be asked for is made anew", async () => {
  const heard: string[] = [];
  const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.port = String(proxy.port);
  url.searchParams.set("query_timeout", "500");
  proxy.slow({ everyMs: 400 });
  const errors: Error[] = [];
  const slow = createNotifications({
    url: url.href,
    applicationName: "slow",
    onError: (error) => {
      errors.push(error);
      proxy.heal();
    },
  });
  try {
    for (const channel of ["one", "two", "three"])
      slow.on(channel, (payload) => void heard.push(`${channel} ${payload ?? "?"}`));
    await until("a question that took too long", () => errors.length > 0);
    await until("all of them", () =>
      ["one ?", "two ?", "three ?"].every((each) => heard.includes(each)),
    );
    await pool.query("select pg_notify('three', 'news')");
    await expect.poll(() => heard).toContain("three news");
  } finally {
    await slow.close();
    await proxy.close();
  }
});
