import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { PositionExpired } from "../../../src/domain/ports/job-store.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPool, transaction } from "../../../src/postgres/pool.ts";
import { createPostgresJobIndex } from "../../../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import { createTestDatabase } from "../../postgres/database.ts";

test("what was restored behind their backs is read anew by those who watch and those who look", async () => {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, applicationName: "test", max: 10 });
  const notifications = createNotifications({ url: database.url, applicationName: "test" });
  const ending = new AbortController();
  onTestFinished(async () => {
    ending.abort();
    await notifications.close();
    await pool.end();
    await database.drop();
  });
  const store = createPostgresJobStore({ pool, notifications, timers });
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

  // A server that has taken over, and has got as far.
  const now = (await store.list({ limit: 1 })).position;
  await expect(watched(now.replace(/^[\d.]+/, "1795385240.5"))).rejects.toThrow(PositionExpired);
  await store.create({ account, id: "next", spec: cronSpec() });
  expect(await watched(now)).toBe("changed");
});

test("behind a transaction that stays open each change is read once, and its own when it is over", async () => {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, applicationName: "test", max: 10 });
  const notifications = createNotifications({ url: database.url, applicationName: "test" });
  const store = createPostgresJobStore({ pool, notifications, timers });
  const ending = new AbortController();
  const open = await pool.connect();
  onTestFinished(async () => {
    ending.abort();
    open.release();
    await notifications.close();
    await pool.end();
    await database.drop();
  });
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
  // Of each: what the insert says, who has changed, the whole of it, and the index.
  expect(read).toBe(40);
  await open.query("commit");
  expect(await next()).toBe("late");
  expect(await index.jobs(account)).toHaveLength(11);
  expect(read).toBe(43);
});
