import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { alwaysLeader } from "../../../src/controller/always-leader.ts";
import { createController, type ControllerDeps } from "../../../src/controller/controller.ts";
import type { Job } from "../../../src/domain/job.ts";
import { LockHeld } from "../../../src/domain/ports/dependency-unavailable.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import type { StatusReporter } from "../../../src/domain/ports/status-reporter.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createPostgresClock } from "../../../src/postgres/clock.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { createLedgerNews } from "../../../src/postgres/job-notifications.ts";
import { createRunLedger } from "../../../src/postgres/run-ledger.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { aSpec } from "../../unit/domain/decide-builders.ts";
import { until } from "../../until.ts";
import { change } from "../postgres/runs-fixture.ts";

let database: TestDatabase;
let parts: Awaited<ReturnType<typeof assemble>>;

async function assemble(url: string) {
  const pool = createPool({ url, applicationName: "controller test" });
  const notifications = createNotifications({ url, applicationName: "controller test" });
  const clock = createPostgresClock({ pool, monotonic });
  await clock.start();
  const accounts = createAccounts({ pool });
  const account = await accounts.create({ name: "team" });
  const jobs = createPostgresJobStore({ pool, notifications, timers });
  const ledger = createRunLedger({ pool });
  const news = createLedgerNews({ notifications });
  // With connections of its own, as in another process.
  const leasePool = createPool({ url, applicationName: "worker", max: 1 });
  const queue = createRunQueue({ pool, leasePool, notifications, random: () => 0.5 });
  return {
    pool,
    leasePool,
    notifications,
    clock,
    jobs,
    ledger,
    news,
    queue,
    account: account.id,
  };
}

beforeAll(async () => {
  database = await createTestDatabase();
  parts = await assemble(database.url);
});

afterAll(async () => {
  parts.clock.stop();
  await parts.notifications.close();
  await Promise.all([parts.pool.end(), parts.leasePool.end()]);
  await database.drop();
});

/** Runs are prepared so far ahead that a test is over before they are due, even on a busy machine. */
const AHEAD_MS = 60_000;

function startController(
  reporter?: StatusReporter,
  ledger = parts.ledger,
  prepareAheadMs = 2 * AHEAD_MS,
  options: Pick<ControllerDeps, "mostKept"> = {},
) {
  const abort = new AbortController();
  const done = createController({
    ...parts,
    ledger,
    leadership: alwaysLeader(),
    timers,
    monotonic: () => performance.now(),
    random: Math.random,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    log: createLogger({ level: "silent" }),
    prepareAheadMs,
    ...options,
    reporter,
  }).run(abort.signal);
  return async () => {
    abort.abort();
    await done;
  };
}

async function count(sql: string, values: unknown[] = []): Promise<number> {
  const { rows } = await parts.pool.query<{ n: number }>(
    `select count(*)::int as n ${sql}`,
    values,
  );
  return rows[0]?.n ?? 0;
}

const onceIn = (ms: number) =>
  aSpec({ schedule: { kind: "once", at: Math.round(parts.clock.now() + ms) } });

test("to decide on overlap, runs that were asked for by hand are not read: there may be a million", async () => {
  const { jobs, ledger, account } = parts;
  const spec = { ...onceIn(0), concurrencyPolicy: "Forbid" as const };
  const of = await jobs.create({ account, id: "asked-for", spec });
  await ledger.apply([change(of)]);
  expect(await ledger.runNow(of, "k")).toBe(true);
  expect(await count("from runs where job_uid = $1", [of.uid])).toBe(1);
  const read: UnfinishedRun[][] = [];
  const stop = startController(undefined, {
    ...ledger,
    async unfinished(...asked) {
      const found = await ledger.unfinished(...asked);
      read.push([...found.values()].flat());
      return found;
    },
  });
  await until("its time has come", async () => {
    const theirs = "from runs where job_uid = $1 and trigger = 'schedule'";
    return (await count(theirs, [of.uid])) === 1;
  });
  await stop();
  expect(read).toEqual([[]]);
  await ledger.cancel([of], of.account ?? "");
});

test("two leaders, one database: each of 300 jobs is created once, ahead of its time", async () => {
  const { jobs, account } = parts;
  const stops = [startController(), startController()];
  try {
    const spec = onceIn(AHEAD_MS);
    for (let n = 0; n < 300; n += 1) await jobs.create({ account, id: `herd-${n}`, spec });
    await until(
      "300 runs",
      async () => (await count("from runs where job_id like 'herd-%'")) >= 300,
      20_000,
    );
    expect(await count("from runs where job_id like 'herd-%' and created_at < scheduled_at")).toBe(
      300,
    );
    expect(await count("from job_cursors where once = 'fired' and job_id like 'herd-%'")).toBe(300);
  } finally {
    for (const stop of stops) await stop();
  }
});

test("more jobs, made and changed at once, than can be kept: each is stored with what it sends", async () => {
  const { jobs, account } = parts;
  const spec = onceIn(AHEAD_MS);
  const { target } = spec;
  if (target.kind !== "webhook") throw new Error("no webhook");
  const saying = (text: string) => ({ ...spec, target: { ...target, payload: `"${text}"` } });
  const ids = Array.from({ length: 40 }, (_, n) => `bulky-${n}`);
  const made = await Promise.all(
    ids.map((id) => jobs.create({ account, id, spec: saying(`${id} 1`) })),
  );
  const stored = async (generation: number) => {
    const { rows } = await parts.pool.query<{ id: string; payload: string }>(
      `select c.job_id as id, v.spec #>> '{target,payload}' as payload
         from job_cursors c join job_revisions v using (job_uid, generation)
        where c.job_id like 'bulky-%' and generation = $1`,
      [generation],
    );
    return new Map(rows.map(({ id, payload }) => [id, payload]));
  };
  // One job takes some 500 characters.
  const stop = startController(undefined, parts.ledger, 2 * AHEAD_MS, { mostKept: 3_000 });
  try {
    for (const generation of [1, 2]) {
      if (generation === 2)
        await Promise.all(made.map((job) => jobs.update(job, saying(`${job.id} 2`))));
      await until("all are stored", async () => (await stored(generation)).size === ids.length);
      expect(await stored(generation)).toEqual(
        new Map(ids.map((id) => [id, `"${id} ${generation}"`])),
      );
    }
    expect(await count("from runs where job_id like 'bulky-%' and generation = 2")).toBe(
      ids.length,
    );
  } finally {
    await stop();
  }
});

test("a prepared run follows a payload edit, is taken back by a pause and cancelled by deletion", async () => {
  const { jobs, account, ledger } = parts;
  const stop = startController();
  const runs = async () => {
    const { rows } = await parts.pool.query<{ generation: number }>(
      "select generation from runs where job_id = 'edited'",
    );
    return rows.map((row) => row.generation).join();
  };
  try {
    const spec = onceIn(AHEAD_MS);
    let job = await jobs.create({ account, id: "edited", spec });
    await until("prepared", async () => (await runs()) === "1");
    job = await jobs.update(job, { ...spec, name: "other" });
    await until("created anew", async () => (await runs()) === "2");
    job = await jobs.update(job, { ...spec, name: "other", suspend: true });
    await until("taken back", async () => (await runs()) === "");
    job = await jobs.update(job, { ...spec, name: "other" });
    await until("prepared again", async () => (await runs()) === "4");
    await jobs.delete(job);
    await until("cancelled", async () => (await runs()) === "");
    expect(await count("from missed_spans where job_id = 'edited' and reason <> 'deleted'")).toBe(
      0,
    );
    expect((await ledger.cursors([job.uid])).get(job.uid)?.deleted).toBe(true);
  } finally {
    await stop();
  }
});

test("jobs deleted while nothing ran are cancelled after the next start", async () => {
  const { jobs, account } = parts;
  let stop = startController();
  const job = await jobs.create({ account, id: "orphan", spec: onceIn(3_600_000) });
  await until(
    "a cursor",
    async () => (await count("from job_cursors where job_id = 'orphan'")) === 1,
  );
  await stop();
  await jobs.delete(job);
  stop = startController();
  try {
    await until(
      "cancelled",
      async () =>
        (await count("from job_cursors where job_id = 'orphan' and deleted_at is not null")) === 1,
    );
    expect(await count("from job_cursors where job_id = 'orphan' and startable")).toBe(0);
  } finally {
    await stop();
  }
});

test("a job without account has a cursor and no runs", async () => {
  const { ledger, clock } = parts;
  const spec = onceIn(-1_000);
  const job = {
    uid: randomUUID(),
    account: null,
    id: "unbound",
    generation: 1,
    version: "1",
    createdAt: clock.now(),
    spec,
    owner: null,
    runNow: null,
  };
  const to = {
    account: null,
    position: clock.now(),
    scheduleHash: timingOf(spec).hash,
    generation: 1,
    revision: null,
    startable: false,
    once: "armed" as const,
    haltedGeneration: null,
    haltedAt: null,
    lastRunNow: null,
    deleted: false,
  };
  const first = await ledger.apply([
    { job, spec: job.spec, from: undefined, to, create: [], replace: [], missed: [] },
  ]);
  expect(first.conflicts).toEqual([]);
  expect((await ledger.cursors([job.uid])).get(job.uid)?.version).toBe(1);
});

/** Keeps the last status of each job, and the jobs that it was told to look at. */
function rememberingReporter() {
  const statuses = new Map<string, string>();
  const closed = new Set<string>();
  const reporter: StatusReporter = {
    report: (job, { status }) => void statuses.set(job.id, status),
    closed: (uids) => {
      for (const uid of uids) closed.add(uid);
    },
    forget: () => {},
    clear: () => {},
  };
  return { statuses, closed, reporter };
}

/** Claims the job's due run, and closes it. */
async function deliver(id: string, next: "finished" | "halted", httpStatus: number): Promise<void> {
  const { queue, clock } = parts;
  const claimed = await queue.claim({
    worker: "w",
    limit: 1_000,
    // A run that is due by PostgreSQL's clock may be due a millisecond later by this process's clock.
    until: clock.now() + 1_000,
    leaseMs: 30_000,
  });
  const run = claimed.find((each) => each.jobId === id);
  if (!run) throw new Error(`nothing to deliver of ${id}`);
  await queue.start([run]);
  const ok = httpStatus < 300;
  const closing = {
    run,
    next,
    execution: {
      status: ok ? ("success" as const) : ("failed" as const),
      httpStatus,
      durationMs: 1,
      errorMessage: ok ? null : "no",
      executedAt: clock.now(),
    },
  };
  expect((await queue.close([closing])).size).toBe(1);
}

test.each([
  { closed: "well", httpStatus: 200, status: "completed" },
  { closed: "badly", httpStatus: 500, status: "failed" },
])("a one-time job that a worker closed $closed is reported $status", async (row) => {
  const { statuses, closed, reporter } = rememberingReporter();
  const stop = startController(reporter);
  const id = `once-${row.status}`;
  try {
    const job = await parts.jobs.create({ account: parts.account, id, spec: onceIn(500) });
    await until(
      "due",
      async () => (await count("from runs where job_id = $1 and not_before <= now()", [id])) === 1,
    );
    await deliver(id, "finished", row.httpStatus);
    await until("reported", async () => statuses.get(id) === row.status);
    await until("history told of", async () => closed.has(job.uid));
    expect(statuses.get(id)).toBe(row.status);
  } finally {
    await stop();
  }
});

test("a 410 pauses the job and resuming wakes it, without a change of the job itself", async () => {
  const { jobs, account, ledger } = parts;
  const { statuses, reporter } = rememberingReporter();
  const stop = startController(reporter);
  const id = "gone";
  try {
    const job = await jobs.create({ account, id, spec: aSpec() });
    await until("taken up", async () => statuses.get(id) === "active");
    expect(await ledger.runNow(job, "once")).toBe(true);
    await deliver(id, "halted", 410);
    await until("paused", async () => statuses.get(id) === "paused");
    await ledger.liftHalt(job);
    await until("active again", async () => statuses.get(id) === "active");
    const cursor = (await ledger.cursors([job.uid])).get(job.uid);
    expect(cursor).toMatchObject({ haltedGeneration: null, startable: true });
    const { version } = cursor ?? {};
    await ledger.liftHalt(job);
    expect((await ledger.cursors([job.uid])).get(job.uid)?.version).toBe(version);
  } finally {
    await stop();
  }
});

const runsOf = ({ uid }: Job) => count("from runs where job_uid = $1", [uid]);
const cursorsOf = ({ uid }: Job) => count("from job_cursors where job_uid = $1", [uid]);

describe("while somebody holds rows of a job in PostgreSQL", () => {
  /** Shorter than in production, so that waits for a lock end soon. */
  const LOCK_TIMEOUT_MS = 500;

  /** Counts how often it was waited for a lock in vain. */
  function impatientLedger() {
    const impatient = createPool({
      url: database.url,
      applicationName: "leader",
      lockTimeoutMs: LOCK_TIMEOUT_MS,
    });
    let waits = 0;
    const ledger = createRunLedger({ pool: impatient });
    const counting = <T>(work: Promise<T>): Promise<T> => {
      work.catch((error: unknown) => (waits += Number(error instanceof LockHeld)));
      return work;
    };
    return {
      impatient,
      ledger: {
        ...ledger,
        apply: (changes: Parameters<typeof ledger.apply>[0]) => counting(ledger.apply(changes)),
        cancelSome: (gone: readonly string[]) => counting(ledger.cancelSome(gone)),
      },
      waits: () => waits,
    };
  }

  test.each([
    { held: "its cursor", rows: "job_cursors where job_uid = $1" },
    { held: "its run", rows: "runs where job_uid = $1" },
  ])(
    "$held: all others are scheduled and deleted, and that one when it is released",
    async ({ rows }) => {
      const { jobs, account, pool } = parts;
      const { impatient, ledger, waits } = impatientLedger();
      const stop = startController(undefined, ledger);
      const made = async (id: string) => jobs.create({ account, id, spec: onceIn(AHEAD_MS) });
      const name = randomUUID().slice(0, 8);
      const holder = await pool.connect();
      try {
        const edited = await made(`edited-${name}`);
        const deleted = await made(`deleted-${name}`);
        for (const each of [edited, deleted])
          await until("prepared", async () => (await runsOf(each)) === 1);
        await holder.query("begin");
        for (const each of [edited, deleted])
          await holder.query(`select from ${rows} for update`, [each.uid]);
        await jobs.update(edited, { ...edited.spec, suspend: true });
        await jobs.delete(deleted);
        await until("one has been waited for", () => waits() > 0);
        for (let n = 0; n < 5; n += 1) {
          const other = await made(`other-${name}-${n}`);
          await until("prepared", async () => (await runsOf(other)) === 1);
          await jobs.delete(other);
          await until("cancelled", async () => (await runsOf(other)) === 0);
        }
        await pause(3 * LOCK_TIMEOUT_MS, timers);
        expect(waits()).toBe(1);
        await holder.query("rollback");
        for (const each of [edited, deleted])
          await until("cancelled", async () => (await runsOf(each)) === 0);
      } finally {
        await holder.query("rollback");
        holder.release();
        await stop();
        await impatient.end();
      }
    },
  );

  test("many that fall due one after the other are not waited for one after the other", async () => {
    const { jobs, account, pool } = parts;
    const { impatient, ledger, waits } = impatientLedger();
    const name = randomUUID().slice(0, 8);
    const made = (id: string, ms: number) =>
      jobs.create({ account, id: `${id}-${name}`, spec: onceIn(ms) });
    const stop = startController(undefined, ledger, 0);
    const holder = await pool.connect();
    try {
      // Each falls due while the one before it would be waited for.
      const held: Job[] = [];
      const others: Job[] = [];
      for (let n = 0; n < 12; n += 1) {
        held.push(await made(`held-${n}`, 5_000 + (n * LOCK_TIMEOUT_MS) / 2));
        others.push(await made(`other-${n}`, 5_000 + (n * LOCK_TIMEOUT_MS) / 2));
      }
      for (const each of [...held, ...others])
        await until("known", async () => (await cursorsOf(each)) === 1);
      await holder.query("begin");
      await holder.query("select from job_cursors where job_uid = any($1) for update", [
        held.map(({ uid }) => uid),
      ]);
      for (const other of others) await until("scheduled", async () => (await runsOf(other)) === 1);
      expect(waits()).toBe(1);
      await holder.query("rollback");
      for (const each of held) await until("scheduled", async () => (await runsOf(each)) === 1);
    } finally {
      await holder.query("rollback");
      holder.release();
      await stop();
      await impatient.end();
    }
  });
});
