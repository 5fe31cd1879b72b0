import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import { migrate } from "../../../src/postgres/migrate.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { startEmbeddedPostgres } from "../../../src/standalone/embedded-postgres.ts";
import { startTcpProxy, type TcpProxy } from "../../network/tcp-proxy.ts";
import { admin } from "../../postgres/admin.ts";
import { applyTo, scheduled } from "../postgres/runs-fixture.ts";
import { startReceiver, type Receiver } from "../../receiver.ts";
import { webhookJob, workerFixture, type WorkerFixture } from "./worker-fixture.ts";

/** Within so many milliseconds of the database's return everything must be recorded. */
const RECOVERY = 30_000;

let dataDir: string;
let server: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
let proxy: TcpProxy;
let fixture: WorkerFixture;
let ends: (() => Promise<void> | void)[] = [];

async function startServer(): Promise<void> {
  server = await startEmbeddedPostgres({ dataDir, settings: { fsync: "off" } });
}

/** A PostgreSQL of this file's own, so that it can be stopped, behind a wire whose port stays the same. */
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "carillon-test-away-"));
  await startServer();
  await migrate({ url: server.url, appVersion: "999.0.0" });
  proxy = await startTcpProxy({
    target: () => ({ host: "127.0.0.1", port: Number(new URL(server.url).port) }),
  });
  const url = new URL(server.url);
  url.port = String(proxy.port);
  fixture = await workerFixture({ url: url.href, drop: async () => undefined });
});
afterEach(async () => {
  for (const end of ends.toReversed()) await end();
  ends = [];
});
afterAll(async () => {
  await fixture?.close();
  await proxy?.close();
  await server?.stop();
  await rm(dataDir, { recursive: true, force: true });
});

/** Starts a delivery, and creates one that falls due during the outage. */
async function underWay(options?: Parameters<WorkerFixture["worker"]>[0]) {
  let answer: (() => void) | undefined;
  const target: Receiver = await startReceiver((call, response) => {
    if (target.received.indexOf(call) === 0) answer = () => response.end();
    else response.end();
  });
  ends.push(() => target.close());
  const worker = fixture.worker(options);
  ends.push(() => worker.stop());
  const [flying, waiting] = [webhookJob(target.url), webhookJob(target.url)];
  await create(flying, Date.now() - 50);
  await target.count(1);
  await create(waiting, Date.now() + 2_500);
  return {
    /** Lets the receiver answer, while nothing can be written. */
    answer: () => answer?.(),
    /** Waits until both are recorded; resolves with the milliseconds that it took. */
    recovered: async (): Promise<number> => {
      const back = performance.now();
      for (const of of [flying, waiting])
        await expect
          .poll(() => outcomes(of), { timeout: RECOVERY })
          .toEqual([{ status: "success", attempt: 1 }]);
      const took = performance.now() - back;
      // There is at most one call for each, and none later: a worker that has stopped tries nothing any more.
      await worker.stop();
      const ids = target.received.map((call) => call.headers["carillon-job-id"]);
      expect(ids).toEqual([flying.id, waiting.id]);
      return took;
    },
  };
}

async function outcomes(of: Job) {
  const executions = await fixture.executionsOf(of).catch(() => []);
  return executions.map(({ status, attempt }) => ({ status, attempt }));
}

async function readOnly(value: "on" | "off"): Promise<void> {
  await admin(server.url, `alter system set default_transaction_read_only = ${value}`);
  await admin(server.url, "select pg_reload_conf()");
}

async function synchronousStandby(name: string): Promise<void> {
  await admin(server.url, `alter system set synchronous_standby_names = '${name}'`);
  await admin(server.url, "select pg_reload_conf()");
}

async function create(of: Job, at: number): Promise<void> {
  await fixture.apply(of, { create: [scheduled(at)] });
}

/** Waits until the outage has lasted long enough for the second run to fall due in it. */
async function outlasted(ms: number): Promise<void> {
  const until = performance.now() + ms;
  await expect.poll(() => performance.now() > until, { timeout: ms + 1_000 }).toBe(true);
}

describe("PostgreSQL away while a delivery is under way: recorded after, and nothing twice", () => {
  test("stopped and started again", async () => {
    const { answer, recovered } = await underWay();
    await server.stop();
    answer();
    await outlasted(4_000);
    await startServer();
    const took = await recovered();
    expect(took).toBeLessThan(RECOVERY);
    console.info(`stopped and started: recovered after ${Math.round(took)} ms`);
  }, 60_000);

  test("behind a wire that swallows everything, and then works again", async () => {
    const { answer, recovered } = await underWay();
    proxy.hang();
    answer();
    await outlasted(4_000);
    proxy.heal();
    const took = await recovered();
    expect(took).toBeLessThan(RECOVERY);
    console.info(`silent wire: recovered after ${Math.round(took)} ms`);
  }, 60_000);

  test("for longer than a lease: whoever looks for the dead lets the others renew theirs first", async () => {
    const timing = { lease: 4_000, renew: 1_000, reap: 250 };
    const { answer, recovered } = await underWay({ timing });
    const queue = fixture.anotherQueue();
    let looked = Promise.withResolvers<void>();
    const other = fixture.worker({
      timing,
      queue: {
        ...queue,
        reap: async () => {
          const reaped = await queue.reap();
          looked.resolve();
          return reaped;
        },
      },
    });
    ends.push(() => other.stop());
    proxy.hang();
    await outlasted(5_000);
    looked = Promise.withResolvers();
    proxy.heal();
    await looked.promise;
    await other.stop();
    answer();
    const took = await recovered();
    expect(took).toBeLessThan(RECOVERY);
    console.info(`longer than a lease: recovered after ${Math.round(took)} ms`);
  }, 60_000);

  test("half-open: the old connections never answer again, nobody is told, new ones work", async () => {
    const { answer, recovered } = await underWay();
    proxy.forsake();
    answer();
    const took = await recovered();
    expect(took).toBeLessThan(RECOVERY);
    console.info(`half-open: recovered after ${Math.round(took)} ms`);
  }, 60_000);

  test("read-only after a failover", async () => {
    const { answer, recovered } = await underWay();
    await readOnly("on");
    answer();
    await outlasted(4_000);
    await readOnly("off");
    const took = await recovered();
    expect(took).toBeLessThan(RECOVERY);
    console.info(`read-only: recovered after ${Math.round(took)} ms`);
  }, 60_000);

  test("a synchronous standby away for longer than a lease: what it held up is given back, and runs", async () => {
    const own = new URL(server.url);
    own.searchParams.set("options", "-c synchronous_commit=local");
    const creating = createPool({ url: own.href, applicationName: "creating", plans: "fixed" });
    ends.push(() => creating.end());
    const pool = createPool({
      url: fixture.url,
      applicationName: "waiting",
      plans: "fixed",
      statementTimeoutMs: 1_000,
    });
    ends.push(() => pool.end());
    const target = await startReceiver();
    ends.push(() => target.close());
    const timing = { lease: 4_000, reap: 250, unanswered: 8_000 };
    const worker = fixture.worker({ queue: fixture.anotherQueue(pool), timing });
    ends.push(() => worker.stop());
    ends.push(() => synchronousStandby(""));
    await synchronousStandby("nobody");
    const of = webhookJob(target.url);
    await applyTo(createRunLedger({ pool: creating }), of, { create: [scheduled(Date.now())] });
    await outlasted(20_000);
    expect(target.received).toEqual([]);
    await synchronousStandby("");
    await expect
      .poll(() => outcomes(of), { timeout: RECOVERY })
      .toEqual([{ status: "success", attempt: 1 }]);
    expect(target.received).toHaveLength(1);
  }, 90_000);

  test("no connection to be had from the pool", async () => {
    const pool = createPool({
      url: fixture.url,
      applicationName: "small",
      max: 1,
      connectTimeoutMs: 2_000,
    });
    ends.push(() => pool.end());
    const target = await startReceiver();
    ends.push(() => target.close());
    const taken = await pool.connect();
    const worker = fixture.worker({ queue: fixture.anotherQueue(pool) });
    ends.push(() => worker.stop());
    const of = webhookJob(target.url);
    await create(of, Date.now());
    await outlasted(4_000);
    expect(target.received).toEqual([]);
    taken.release();
    expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(target.received).toHaveLength(1);
  });
});
