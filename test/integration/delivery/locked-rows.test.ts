/**
 * Rows that somebody holds in PostgreSQL, an administrator for instance, and writes that fail or take long for a
 * while.
 */
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { timers } from "../../../cmd/system.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { until } from "../../until.ts";
import { claimOne, cursorOf, scheduled, success } from "../postgres/runs-fixture.ts";
import { endingWithTest, webhookJob, workerFixture, type WorkerFixture } from "./worker-fixture.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
});
afterAll(() => fixture?.close());
const { create, receiver, worker, onEnd } = endingWithTest(() => fixture);

/** Locks the job's row until the returned function is called, or the test ends. */
async function hold(
  table: "job_cursors" | "runs",
  of: Job,
  how: "update" | "share" | "key share" = "update",
): Promise<() => Promise<void>> {
  const client = await fixture.pool.connect();
  let held = true;
  const release = async (): Promise<void> => {
    if (!held) return;
    held = false;
    await client.query("rollback");
    client.release();
  };
  onEnd(release);
  await client.query("begin; set local idle_in_transaction_session_timeout = 0");
  await client.query(`select from ${table} where job_uid = $1 for ${how}`, [of.uid]);
  return release;
}

const outcomesOf = async (of: Job) =>
  (await fixture.executionsOf(of)).map(({ status, attempt }) => `${status} ${attempt}`);

describe("while somebody holds a job's cursor", () => {
  test("all other jobs' outcomes are recorded, and that one's when it is released", async () => {
    const target = await receiver();
    const jobs = Array.from({ length: 30 }, () => webhookJob(target.url));
    await create(...jobs.map((of) => ({ of })));
    const [held, ...others] = jobs;
    if (held === undefined) throw new Error("no job");
    const release = await hold("job_cursors", held);
    worker();
    await target.count(30);
    for (const of of others) await fixture.executions(of, 1);
    // Later jobs do not wait either.
    const later = webhookJob(target.url);
    await create({ of: later });
    await fixture.executions(later, 1);
    expect(await outcomesOf(held)).toEqual([]);
    await release();
    await fixture.executions(held, 1);
    for (const of of [...jobs, later]) expect(await outcomesOf(of)).toEqual(["success 1"]);
    expect(target.received).toHaveLength(31);
  });

  test("the job has no share but its own, however many runs of it are asked for", async () => {
    const [target, busyTarget] = [await receiver(), await receiver()];
    const account = randomUUID();
    const busy = webhookJob(busyTarget.url, { account });
    const other = webhookJob(target.url, { account });
    await create({ of: busy }, { of: other });
    for (let asked = 0; asked < 40; asked += 1)
      expect(await fixture.ledger.runNow(busy, `${asked}`)).toBe(true);
    const release = await hold("job_cursors", busy);
    // Fewer than the busy job has runs.
    worker({ limits: { concurrency: 8, unrecorded: 3 } });
    for (let asked = 0; asked < 20; asked += 1) {
      await fixture.ledger.runNow(other, `${asked}`);
      await fixture.executions(other, asked + 2);
    }
    expect(await outcomesOf(busy)).toEqual([]);
    // Its own runs wait as well: what became of them could not be recorded.
    expect(busyTarget.received.length).toBeLessThan(20);
    await release();
    await fixture.executions(busy, 41);
    expect(busyTarget.received).toHaveLength(41);
  });

  test("its run that nobody wants any more is not refused again and again, and goes when it is released", async () => {
    const target = await receiver();
    const at = Date.now() - 5_000;
    const of = webhookJob(target.url, { schedule: { kind: "once", at } });
    await fixture.apply(of, { create: [scheduled(at)], to: { once: "fired" } });
    // As after a 410, before a leader drops what is queued.
    await fixture.pool.query("update job_cursors set startable = false where job_uid = $1", [
      of.uid,
    ]);
    const release = await hold("job_cursors", of);
    const queue = fixture.anotherQueue();
    let starts = 0;
    worker({
      queue: {
        ...queue,
        start: (runs) => {
          starts += 1;
          return queue.start(runs);
        },
      },
    });
    await until("its start is refused", () => starts > 0);
    await pause(1_000, timers);
    expect(starts).toBe(1);
    await release();
    await until("it is gone", async () => (await fixture.runsOf(of)).length === 0);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "armed" });
    expect(target.received).toEqual([]);
  });

  test("a reaper gets to runs behind more of them than it closes at a time", async () => {
    const [held, other] = [webhookJob("http://127.0.0.1:9/"), webhookJob("http://127.0.0.1:9/")];
    const began = Date.now() - 60_000;
    const times = Array.from({ length: 501 }, (_, index) => scheduled(began + index));
    await fixture.apply(held, { create: times });
    await fixture.apply(other, { create: [scheduled(Date.now() - 1)] });
    const request = { worker: "dead", limit: 600, until: Date.now(), leaseMs: 60_000 };
    const runs = await fixture.queue.claim(request);
    expect((await fixture.queue.start(runs)).size).toBe(502);
    await fixture.pool.query("update runs set lease_until = now() - interval '1 s'");
    const release = await hold("job_cursors", held);
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
    expect(await outcomesOf(other)).toEqual(["failed 1"]);
    await release();
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 501 });
  });
});

test.each(["job_cursors", "runs"] as const)(
  "a reaper closes the other runs of a dead worker while somebody holds a row in %s",
  async (table) => {
    const jobs = [webhookJob("http://127.0.0.1:9/"), webhookJob("http://127.0.0.1:9/")];
    for (const of of jobs) {
      await create({ of });
      await fixture.queue.start([await claimOne(fixture.queue, of)]);
    }
    const [held, other] = jobs;
    if (held === undefined || other === undefined) throw new Error("no jobs");
    await fixture.pool.query("update runs set lease_until = now() - interval '1 s'");
    const release = await hold(table, held);
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
    expect(await outcomesOf(other)).toEqual(["failed 1"]);
    await release();
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
    expect(await outcomesOf(held)).toEqual(["failed 1"]);
  },
);

test("a run that somebody holds for longer than its lease has its outcome when it is released", async () => {
  const answers: ServerResponse[] = [];
  const target = await receiver((_call, response) => answers.push(response));
  const of = webhookJob(target.url);
  await create({ of });
  let aside = false;
  const queue = {
    ...fixture.queue,
    locked: async (runs: readonly ClaimedRun[]) => {
      const held = await fixture.queue.locked(runs);
      aside ||= held.size > 0;
      return held;
    },
  };
  worker({ queue, timing: { lease: 2_500, renew: 60_000, reap: 20 } });
  await target.count(1);
  const release = await hold("runs", of);
  for (const answer of answers) answer.end();
  await until("its outcome is put aside", () => aside);
  await until("its lease is over", async () => {
    const { rows } = await fixture.pool.query<{ over: boolean }>(
      "select bool_and(lease_until < clock_timestamp()) as over from runs where job_uid = $1",
      [of.uid],
    );
    return rows[0]?.over === true;
  });
  await release();
  await fixture.executions(of, 1);
  expect(await outcomesOf(of)).toEqual(["success 1"]);
  expect(target.received).toHaveLength(1);
});

test("a retry that is recorded after it was due comes then, however rarely all of the queue is looked at", async () => {
  const target = await receiver((_call, response) => response.writeHead(503).end());
  const queue = fixture.anotherQueue();
  const of = webhookJob(target.url, {
    retry: { maxRetries: 1, minBackoffSeconds: 1, maxBackoffSeconds: 1 },
  });
  let closed = false;
  let fullScans = 0;
  worker({
    queue: {
      ...queue,
      // Slow, as when a million runs have ended during a backup, or when the server stops for a moment.
      claim: async (request) => {
        const runs = await queue.claim(request);
        if (request.from === null) {
          fullScans += 1;
          await pause(1_000, timers);
        }
        return runs;
      },
      // A closing waits, too, for its turn or for a lock.
      close: async (closings) => {
        if (!closed) await pause(4_000, timers);
        closed = true;
        return queue.close(closings);
      },
    },
  });
  await create({ of });
  await target.count(1);
  await until("its first attempt is recorded", () => closed);
  const looks = fullScans;
  await target.count(2);
  // The next one would come 20 s after the one at the start.
  expect(fullScans).toBe(looks);
});

test("which runs a closing would have to wait for: those that somebody holds, or whose job's cursor", async () => {
  const jobs = Array.from({ length: 3 }, () => webhookJob("http://127.0.0.1:9/"));
  const runs = [];
  for (const of of jobs) {
    await create({ of });
    runs.push(await claimOne(fixture.queue, of));
  }
  const [ofRun, ofCursor, free] = runs;
  const [first, second] = jobs;
  if (!ofRun || !ofCursor || !free || !first || !second) throw new Error("no runs");
  expect(await fixture.queue.locked(runs)).toEqual(new Set());
  const releaseCursor = await hold("job_cursors", second);
  const releaseRun = await hold("runs", first);
  expect(await fixture.queue.locked(runs)).toEqual(new Set([ofRun.id, ofCursor.id]));
  await releaseRun();
  await releaseCursor();
  // A run that is over does not have to be waited for, nor a cursor that is gone.
  await fixture.queue.close([success(free)]);
  await fixture.pool.query("delete from job_cursors where job_uid = $1", [second.uid]);
  expect(await fixture.queue.locked(runs)).toEqual(new Set());
  await fixture.cancel(jobs);
});

test.each([
  { table: "runs", how: "key share", waits: true },
  { table: "job_cursors", how: "share", waits: true },
  { table: "job_cursors", how: "key share", waits: false },
] as const)("a closing waits for a lock for $how in $table: $waits", async (locked) => {
  const of = webhookJob("http://127.0.0.1:9/");
  await create({ of });
  const run = await claimOne(fixture.queue, of);
  const release = await hold(locked.table, of, locked.how);
  expect(await fixture.queue.locked([run])).toEqual(new Set(locked.waits ? [run.id] : []));
  const closing = fixture.queue.close([success(run)]);
  await (locked.waits ? untilLockWaits(fixture.pool) : closing);
  await release();
  await closing;
});

test("a statement of ours that is just writing is no lock of somebody's", async () => {
  const [heldLonger, other, later] = [
    webhookJob("http://127.0.0.1:9/"),
    webhookJob("http://127.0.0.1:9/"),
    webhookJob("http://127.0.0.1:9/"),
  ];
  const runs: ClaimedRun[] = [];
  for (const of of [heldLonger, other, later]) {
    await create({ of });
    runs.push(await claimOne(fixture.queue, of));
  }
  const held = runs.filter(({ jobUid }) => jobUid === heldLonger.uid).map(({ id }) => id);
  const releaseHeld = await hold("runs", heldLonger);
  /** Another connection writes; it commits before the second look. And then one more does, until the last. */
  const asked = async (question: (pool: Pool) => Promise<ReadonlySet<string>>) => {
    const write = await hold("runs", other);
    let writeLater: (() => Promise<void>) | undefined;
    let looks = 1;
    const pool = new Proxy(fixture.pool, {
      get: (target, name) => {
        if (name !== "query") return Reflect.get(target, name, target) as unknown;
        return async (...query: Parameters<Pool["query"]>) => {
          if (query[0].includes("pg_sleep")) {
            looks += 1;
            await write();
            if (looks === 2) writeLater = await hold("runs", later);
          }
          return target.query(...query);
        };
      },
    });
    const named = await question(pool);
    await write();
    await writeLater?.();
    return named;
  };
  const uids = [heldLonger.uid, other.uid, later.uid];
  const briefly = { briefly: true };
  expect(await asked((pool) => createRunLedger({ pool }).locked(uids))).toEqual(
    new Set([heldLonger.uid]),
  );
  expect(await asked((pool) => createRunLedger({ pool }).locked(uids, briefly))).toEqual(
    new Set([heldLonger.uid, other.uid]),
  );
  expect(await asked((pool) => fixture.anotherQueue(pool).locked(runs))).toEqual(new Set(held));
  expect(await asked((pool) => fixture.anotherQueue(pool).locked(runs, briefly))).toEqual(
    new Set(runs.filter(({ jobUid }) => jobUid !== later.uid).map(({ id }) => id)),
  );
  await releaseHeld();
  await fixture.queue.close(runs.map((run) => success(run)));
});

test("an outcome that cannot be written for a reason of the server's is kept until it can", async () => {
  const target = await receiver();
  const jobs = Array.from({ length: 8 }, (_, index) =>
    webhookJob(target.url, {
      retry: { maxRetries: index % 2, minBackoffSeconds: 1, maxBackoffSeconds: 1 },
    }),
  );
  await create(...jobs.map((of) => ({ of })));
  await fixture.pool.query("alter table execution_counts rename to execution_counts_away");
  let refused = 0;
  worker({
    queue: {
      ...fixture.queue,
      close: async (closings) => {
        try {
          return await fixture.queue.close(closings);
        } catch (error) {
          refused += 1;
          throw error;
        }
      },
    },
  });
  await target.count(8);
  await until("closings are refused one by one", () => refused > 5);
  await fixture.pool.query("alter table execution_counts_away rename to execution_counts");
  for (const of of jobs) await fixture.executions(of, 1);
  for (const of of jobs) expect(await outcomesOf(of)).toEqual(["success 1"]);
  expect(target.received).toHaveLength(8);
});
