import { beforeAll, describe, expect, test } from "vitest";
import { monotonic } from "../../../cmd/system.ts";
import { HOUR } from "../../../src/domain/instant.ts";
import { ClockUnknown, type Clock } from "../../../src/domain/ports/clock.ts";
import { createPostgresClock } from "../../../src/postgres/clock.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

test("knows nothing before it measured", () => {
  const clock = createPostgresClock({ pool, monotonic });
  expect(clock.known).toBe(false);
  expect(() => clock.now()).toThrow(ClockUnknown);
});

test("follows PostgreSQL's clock, whatever this machine's monotonic clock began with", async () => {
  let measurements = 0;
  const counting = {
    connect: () => {
      measurements += 1;
      return pool.connect();
    },
  } as unknown as Pool;
  const clock = createPostgresClock({
    pool: counting,
    monotonic: () => performance.now() + 1e9,
    intervalMs: 10,
  });
  await clock.start();
  // After several measurements, of which the best counts: the server may have been busy during one.
  await expect.poll(() => measurements).toBeGreaterThan(10);
  for (let i = 0; i < 20; i += 1) {
    const before = clock.now();
    const { rows } = await pool.query<{ now: number }>(
      "select extract(epoch from clock_timestamp())::float8 * 1000 as now",
    );
    const now = rows[0]?.now ?? 0;
    expect(now - before).toBeGreaterThan(-5);
    expect(clock.now() - now).toBeGreaterThan(-5);
  }
  clock.stop();
});

test("a server whose clock jumped is believed at once", async () => {
  let jump = 0;
  // Seen from here, a jump of the server's clock is a jump of the monotonic clock in the other direction.
  const clock = createPostgresClock({
    pool,
    monotonic: () => performance.now() - jump,
    intervalMs: 5,
  });
  await clock.start();
  jump = 60_000;
  await expect.poll(() => Math.abs(clock.now() - Date.now()), { interval: 5 }).toBeLessThan(1_000);
  clock.stop();
});

/** The same, but this machine's own clock does not jump, so that it is behind the server's. */
async function stepped(doubtForMs?: number) {
  let jump = 0;
  const doubts: number[] = [];
  const clock = createPostgresClock({
    pool,
    monotonic: () => performance.now() - jump,
    ownClock: () => Date.now() - jump,
    onDoubt: (aheadMs) => doubts.push(aheadMs),
    intervalMs: 5,
    doubtForMs,
  });
  await clock.start();
  jump = 8 * HOUR;
  await expect.poll(() => doubts.length, { interval: 5 }).toBe(1);
  return {
    clock,
    doubts,
    setRight: () => {
      jump = 0;
    },
    stepAgain: () => {
      jump *= 2;
    },
  };
}
const aheadOfServer = (clock: Clock) => clock.now() - Date.now();

describe("a server whose clock is far ahead of a sudden, and this machine's is not", () => {
  test("is doubted: time goes on as before, and is known again when the server's is set right", async () => {
    const { clock, doubts, setRight } = await stepped();
    expect(clock.known).toBe(false);
    expect(Math.abs((doubts[0] ?? 0) - 8 * HOUR)).toBeLessThan(1_000);
    expect(Math.abs(aheadOfServer(clock) + 8 * HOUR)).toBeLessThan(1_000);
    // PostgreSQL answers, and that is what leaders need to know.
    expect(clock.silence()).toBeLessThan(1_000);
    setRight();
    await expect.poll(() => clock.known, { interval: 5 }).toBe(true);
    expect(Math.abs(aheadOfServer(clock))).toBeLessThan(1_000);
    expect(doubts).toHaveLength(1);
    clock.stop();
  });

  test("is believed when that lasts", async () => {
    const { clock, doubts } = await stepped(50);
    await expect.poll(() => clock.known, { interval: 5 }).toBe(true);
    expect(Math.abs(aheadOfServer(clock))).toBeLessThan(1_000);
    expect(doubts).toHaveLength(1);
    clock.stop();
  });

  test("is doubted anew when it steps again", async () => {
    const { clock, doubts, stepAgain } = await stepped();
    stepAgain();
    await expect.poll(() => doubts.length, { interval: 5 }).toBe(2);
    expect(clock.known).toBe(false);
    clock.stop();
  });

  test.each([
    {
      what: "at once if this machine's clock says so too, as after its sleep",
      by: 8 * HOUR,
      slow: 0,
    },
    { what: "at once by seconds, however wrong this machine's clock is", by: 5_000, slow: HOUR },
  ])("is believed $what", async ({ by, slow }) => {
    let jump = 0;
    const clock = createPostgresClock({
      pool,
      monotonic: () => performance.now() - jump,
      ownClock: () => Date.now() - slow,
      onDoubt: () => expect.unreachable("nothing is to be doubted"),
      intervalMs: 5,
    });
    await clock.start();
    jump = by;
    await expect.poll(() => Math.abs(aheadOfServer(clock)), { interval: 5 }).toBeLessThan(1_000);
    expect(clock.known).toBe(true);
    clock.stop();
  });
});

test("measures again on a new connection when the one it had leads to nobody any more", async () => {
  const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
  const url = new URL(database.url);
  url.port = String(proxy.port);
  url.searchParams.set("query_timeout", "1000");
  const through = createPool({ url: url.href, applicationName: "test", max: 1 });
  const errors: unknown[] = [];
  const clock = createPostgresClock({
    pool: through,
    monotonic,
    intervalMs: 5,
    onError: (error) => errors.push(error),
  });
  await clock.start();
  proxy.forsake();
  await expect.poll(() => errors.length, { interval: 5 }).toBe(1);
  await expect.poll(() => clock.silence(), { interval: 5 }).toBeLessThan(500);
  expect(errors).toHaveLength(1);
  clock.stop();
  await through.end();
  await proxy.close();
});

test("measures as soon as the database comes", async () => {
  const absent = createPool({ url: "postgres://nobody@127.0.0.1:1/none", applicationName: "test" });
  const errors: unknown[] = [];
  let through = absent;
  const proxy = { connect: () => through.connect() } as unknown as Pool;
  const clock = createPostgresClock({
    pool: proxy,
    monotonic,
    intervalMs: 20,
    onError: (error) => {
      errors.push(error);
      through = pool;
    },
  });
  await clock.start();
  expect(errors).toHaveLength(1);
  expect(clock.known).toBe(true);
  clock.stop();
  await absent.end();
});
