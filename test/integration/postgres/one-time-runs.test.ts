import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { alwaysLeader } from "../../../src/controller/always-leader.ts";
import { createController } from "../../../src/controller/controller.ts";
import { HOUR, isoUtc } from "../../../src/domain/instant.ts";
import type { OnceState } from "../../../src/domain/cursor.ts";
import type { Job, JobSpec, JobStatus } from "../../../src/domain/job.ts";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import type { Closing } from "../../../src/domain/ports/run-queue.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { cancelAccountRuns } from "../../../src/postgres/cancel-account-runs.ts";
import { createLedgerNews, notifyJobs } from "../../../src/postgres/job-notifications.ts";
import {
  createNotifications,
  CURSORS_CHANNEL,
  type Notifications,
} from "../../../src/postgres/notifications.ts";
import { createPostgresClock } from "../../../src/postgres/clock.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { onceSpec } from "../../conformance/job-store.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { until } from "../../until.ts";
import {
  change,
  claimOne,
  cursorOf,
  decisionOf,
  expireLease,
  failure,
  fallDue,
  job,
  lockedRunsOf,
  retry,
  runsFixture,
  scheduled,
  spec,
  startOne,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";

const AHEAD = 15_000;

let fixture: RunsFixture;
let notifications: Notifications;
/** Jobs about whose cursors the leader was told. */
const told = new Set<string>();
beforeAll(async () => {
  fixture = await runsFixture();
  notifications = createNotifications({ url: fixture.url, applicationName: "leader" });
  await new Promise<void>((listening) => {
    createLedgerNews({ notifications }).onCursors((uids) => {
      if (uids === undefined) listening();
      for (const uid of uids ?? []) told.add(uid);
    });
  });
});
afterAll(async () => {
  await notifications?.close();
  await fixture?.close();
});

const once = (at: number, change: Partial<JobSpec> = {}) => job({ spec: onceSpec(at, change) });

function edited(of: Job, change: Partial<JobSpec>): Job {
  return { ...of, generation: of.generation + 1, spec: { ...of.spec, ...change } };
}

const movedTo = (of: Job, at: number) => edited(of, { schedule: { kind: "once", at } });

const toCron = (of: Job) => edited(of, { schedule: spec().schedule });

const decided = (of: Job, storeWins = false) =>
  decisionOf(fixture.ledger, of, { ahead: AHEAD, storeWins });

/** Reconciles as the leader does, until nothing is left to do. */
async function reconcile(of: Job): Promise<void> {
  for (let change = await decided(of); change !== undefined; change = await decided(of))
    expect((await fixture.ledger.apply([change])).conflicts).toEqual([]);
}

/** Takes up the job as after a restore of the job store: an older generation counts again. */
async function takenUpAgain(of: Job): Promise<void> {
  const change = await decided(of, true);
  if (change === undefined) throw new Error(`nothing changes about ${of.id}`);
  await fixture.ledger.apply([change]);
  await reconcile(of);
}

const started = (of: Job) => startOne(fixture.queue, of);

/** A job whose run of `at` is under way, and also that of a second later, to which it was moved. */
async function bothUnderWay(at: number) {
  const of = once(at);
  await reconcile(of);
  const run = await started(of);
  const moved = movedTo(of, at + 1_000);
  await reconcile(moved);
  return { of, run, moved, newer: await started(moved) };
}

/** Applies a change that has locked the run's row and waits for the cursor, while the run's closing waits for both. */
async function reconcileWhileItCloses(of: Job, run: ClaimedRun): Promise<void> {
  const decision = await decided(of);
  if (decision === undefined) throw new Error("nothing to apply");
  const other = await openTransaction(
    fixture.pool,
    "select from job_cursors where job_uid = $1 for update",
    [of.uid],
  );
  const applied = fixture.ledger.apply([decision]);
  await untilLockWaits(fixture.pool);
  const closed = fixture.queue.close([success(run)]);
  await untilLockWaits(fixture.pool, 2);
  await other.commit();
  expect(await applied).toEqual({ conflicts: [], created: 0 });
  expect(await closed).toEqual(new Set([run.id]));
}

/** Resolves when the leader has heard all that was told so far. */
async function everythingIsTold(): Promise<void> {
  const marker = randomUUID();
  await notifyJobs(fixture.pool, CURSORS_CHANNEL, [marker]);
  await until("what came before it has come", () => told.has(marker));
}

/** The pool of a process that dies when this statement has been carried out. */
function dyingAfter(name: string, pool: Pool): Pool {
  let dead = false;
  return aroundQueries(pool, async (ask, [statement]) => {
    if (dead) throw new Error("the process is dead");
    const result = await ask();
    dead = (statement as { name?: string }).name === name;
    return result;
  });
}

/** Two accounts, of which the one is to be deleted, and the other gets its namespace. */
async function oneAfterTheOther(name: string) {
  const accounts = createAccounts({ pool: fixture.pool, onDelete: cancelAccountRuns });
  const gone = await accounts.create({ name: `gone ${name}` });
  const next = await accounts.create({ name: `next ${name}` });
  return { accounts, gone, next };
}

async function refused(run: ClaimedRun): Promise<void> {
  expect(await fixture.queue.start([run])).toEqual(new Set());
}

/**
 * An edit while the run is started drops and creates nothing. Then the run is given back because of an open circuit.
 */
async function givenBackAfterAnEdit(of: Job, change: Partial<JobSpec>): Promise<Job> {
  await reconcile(of);
  const run = await started(of);
  const newer = edited(of, change);
  await reconcile(newer);
  await fixture.queue.release([run], Date.now() - 1);
  return newer;
}

async function byHand(of: Job): Promise<void> {
  await fixture.ledger.runNow(of, "by hand");
  await fixture.queue.close([success(await started(of))]);
}

async function forget(of: Job): Promise<void> {
  await fixture.pool.query("delete from executions where job_uid = $1", [of.uid]);
}

/** The receiver answers 410 to a manual run. */
async function halt(of: Job): Promise<void> {
  await fixture.ledger.runNow(of, "by hand");
  await fixture.queue.close([failure(await started(of), "halted")]);
}

const onceOf = async (of: Job): Promise<OnceState> => (await cursorOf(fixture.ledger, of)).once;

const reasonsOf = async (of: Job) => (await fixture.missedOf(of)).map(({ reason }) => reason);

/** A worker starts and delivers the due run. Nothing else is recorded. */
async function delivers(of: Job, at: number): Promise<void> {
  await fallDue(fixture, of);
  const run = await started(of);
  expect(run).toMatchObject({ trigger: "schedule", scheduledAt: at });
  await fixture.queue.close([success(run)]);
  expect(await onceOf(of)).toBe("completed");
  expect(await reasonsOf(of)).toEqual([]);
}

describe("a time that has been missed already takes the place of one whose run waits", () => {
  const cases: { name: string; earlierBy: number; policy: Partial<JobSpec>; recorded: string[] }[] =
    [
      {
        name: "the starting deadline",
        earlierBy: 1_000,
        policy: { startingDeadlineSeconds: 0 },
        recorded: ["deadline", "superseded"],
      },
      {
        name: "the run that waits",
        earlierBy: 1_000,
        policy: { concurrencyPolicy: "Forbid" },
        recorded: ["overlap", "superseded"],
      },
      {
        name: "the starting deadline, of the same time",
        earlierBy: 0,
        policy: { startingDeadlineSeconds: 0 },
        recorded: ["deadline"],
      },
    ];
  for (const { name, earlierBy, policy, recorded } of cases)
    test(`by ${name}: recorded ${recorded.join(" and ")}`, async () => {
      const at = Date.now() - 1_000;
      const of = once(at);
      await reconcile(of);
      await reconcile(edited(of, { schedule: { kind: "once", at: at - earlierBy }, ...policy }));
      expect(await fixture.runsOf(of)).toEqual([]);
      expect((await reasonsOf(of)).toSorted()).toEqual(recorded);
      expect(await onceOf(of)).toBe("missed");
    });
});

/** A pause that is decided while the run is queued, and applied after it has been started. */
async function pausedLate(of: Job): Promise<{ run: ClaimedRun; paused: Job }> {
  await reconcile(of);
  const run = await claimOne(fixture.queue, of);
  const paused = edited(of, { suspend: true });
  const pause = await decided(paused);
  if (pause?.to.once !== "armed") throw new Error("the firing is not taken back");
  expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
  told.clear();
  await fixture.ledger.apply([pause]);
  await until("the leader is told", () => told.has(of.uid));
  return { run, paused };
}

describe("taken back while its run is started", () => {
  const WITH_DEADLINE = { startingDeadlineSeconds: 1 };

  test("it goes on to wait for it: completed, and nothing is missed on resume", async () => {
    const of = once(Date.now() - 5_000, WITH_DEADLINE);
    // The deadline had not passed when it was created.
    const { run, paused } = await pausedLate({
      ...of,
      spec: { ...of.spec, startingDeadlineSeconds: null },
    });
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
    await reconcile(edited(paused, { suspend: false, ...WITH_DEADLINE }));
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("to be created anew by an edit: it goes on, and its outcome counts", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const newer = edited(of, { name: "edited" });
    const change = await decided(newer);
    expect(change?.create).toMatchObject([{ scheduledAt: at }]);
    const run = await started(of);
    expect(await fixture.ledger.apply(change ? [change] : [])).toEqual({
      conflicts: [],
      created: 0,
    });
    expect((await fixture.runsOf(of)).map(({ id }) => id)).toEqual([run.id]);
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
    expect(await decided(newer)).toBeUndefined();
  });

  test("given back unsent it is armed again, and runs once on resume", async () => {
    const { run, paused } = await pausedLate(once(Date.now() - 1_000));
    await fixture.queue.release([run], Date.now() - 1);
    await refused(await claimOne(fixture.queue, paused));
    expect(await onceOf(paused)).toBe("armed");
    const resumed = edited(paused, { suspend: false });
    await reconcile(resumed);
    await fixture.queue.close([success(await started(resumed))]);
    expect(await onceOf(resumed)).toBe("completed");
    expect(await reasonsOf(resumed)).toEqual([]);
    expect(await fixture.executionsOf(resumed)).toHaveLength(1);
  });

  test("attempted by the time that is applied: it has failed, and is not missed on resume, however late", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    const paused = edited(of, { suspend: true });
    const pause = await decided(paused);
    if (pause?.to.once !== "armed") throw new Error("the firing is not taken back");
    await fixture.queue.start([run]);
    await fixture.queue.close([retry(run, Date.now() + HOUR)]);
    await fixture.ledger.apply([pause]);
    const resume = await decided(edited(paused, { suspend: false, startingDeadlineSeconds: 0 }));
    if (resume === undefined) throw new Error("nothing to apply");
    expect(resume.missed).toHaveLength(1);
    await fixture.ledger.apply([resume]);
    expect(await onceOf(of)).toBe("failed");
    expect(await reasonsOf(of)).toEqual([]);
    expect(await fixture.executionsOf(of)).toHaveLength(1);
  });

  test("but it is not, and only a run by hand has the name of its time: it runs on resume", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    await fixture.ledger.runNow(of, isoUtc(at));
    const paused = edited(of, { suspend: true });
    await reconcile(paused);
    expect(await onceOf(of)).toBe("armed");
    await fixture.queue.close([success(await started(of))]);
    const resumed = edited(paused, { suspend: false });
    await reconcile(resumed);
    await delivers(resumed, at);
  });

  test("for another time, and put back: it has run, however late that is", async () => {
    const at = Date.now() + 5_000;
    const of = once(at);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    const moved = movedTo(of, at + HOUR);
    // Decided a moment before its time, applied a moment after its start.
    const move = await decided(moved);
    if (move === undefined) throw new Error("nothing to apply");
    await fallDue(fixture, of);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    await fixture.ledger.apply([move]);
    await fixture.queue.close([success(run)]);
    const back = edited(moved, { schedule: { kind: "once", at }, ...WITH_DEADLINE });
    const change = await decisionOf(fixture.ledger, back, { now: at + HOUR });
    if (change === undefined) throw new Error("nothing to apply");
    expect(change.missed).toHaveLength(1);
    await fixture.ledger.apply([change]);
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual([]);
  });
});

describe("put back to a time that it has run at", () => {
  test("with Replace: the run of the other time goes on, since nothing takes its place", async () => {
    const first = Date.now() - 2_000;
    const of = once(first, { concurrencyPolicy: "Replace" });
    await reconcile(of);
    await fixture.queue.close([success(await started(of))]);
    const moved = movedTo(of, Date.now() - 1_000);
    await reconcile(moved);
    const run = await started(moved);
    await reconcile(movedTo(moved, first));
    expect(await fixture.queue.unwanted([run.id])).toEqual(new Map());
    await fixture.queue.close([success(run)]);
    expect(await fixture.executionsOf(of)).toHaveLength(2);
  });

  const cases: {
    name: string;
    close: (run: ClaimedRun) => Closing;
    after?: (of: Job) => Promise<unknown>;
    becomes: OnceState;
  }[] = [
    { name: "a success", close: (run) => success(run), becomes: "completed" },
    { name: "a failure", close: (run) => failure(run), becomes: "failed" },
    {
      name: "a retry that the edit ended",
      close: (run) => retry(run, Date.now() + HOUR),
      becomes: "failed",
    },
    {
      name: "a failure, and a success by hand after it",
      close: (run) => failure(run),
      after: byHand,
      becomes: "failed",
    },
    {
      name: "a success of which only the history is left",
      close: (run) => success(run),
      after: async (of) => {
        await byHand(of);
        await forget(of);
      },
      becomes: "completed",
    },
    {
      name: "a failure of which only the history is left",
      close: (run) => failure(run),
      after: forget,
      becomes: "failed",
    },
  ];

  for (const { name, close, after, becomes } of cases)
    test(`${name}: ${becomes}`, async () => {
      const at = Date.now() - 1_000;
      const of = once(at);
      await reconcile(of);
      await fixture.queue.close([close(await started(of))]);
      await after?.(of);
      const later = movedTo(of, at + HOUR);
      await reconcile(later);
      expect(await onceOf(of)).toBe("armed");

      const reverted = movedTo(later, at);
      const change = await decided(reverted);
      if (change === undefined) throw new Error("nothing to apply");
      expect(await fixture.ledger.apply([change])).toEqual({ conflicts: [], created: 0 });
      expect(await onceOf(of)).toBe(becomes);
      expect(await fixture.runsOf(of)).toEqual([]);
      // The caller expects one version more, so it is told about the second one.
      expect((await cursorOf(fixture.ledger, of)).version).toBe((change.from?.version ?? 0) + 2);
      await until("it is told", () => told.has(of.uid));
      expect(await decided(reverted)).toBeUndefined();
      expect(await reasonsOf(of)).toEqual([]);
    });

  test("after it ran at another time in between: its own outcome counts", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    await reconcile(of);
    await fixture.queue.close([failure(await started(of))]);
    const later = movedTo(of, at + 1_000);
    await reconcile(later);
    await fixture.queue.close([success(await started(later))]);
    expect(await onceOf(of)).toBe("completed");
    await reconcile(movedTo(later, at));
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await onceOf(of)).toBe("failed");
  });

  test("a time before the last one, at which it has not run, is run at", async () => {
    const at = Date.now() - 2_000;
    const of = once(at + 1_000);
    await reconcile(of);
    await fixture.queue.close([success(await started(of))]);
    const earlier = movedTo(of, at);
    await reconcile(earlier);
    await delivers(earlier, at);
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  test("beside a job that is put back to a time that it has missed: that one has missed it", async () => {
    const at = Date.now() - 2_000;
    const [ran, missed] = [once(at), once(at + 1_000)];
    for (const of of [ran, missed]) {
      await reconcile(of);
      await fixture.queue.close([success(await started(of))]);
    }
    const later = movedTo(ran, at + HOUR);
    await reconcile(later);
    const changes = [
      await decided(movedTo(later, at)),
      await decided(edited(missed, { schedule: { kind: "once", at }, startingDeadlineSeconds: 0 })),
    ].filter((change) => change !== undefined);
    expect(await fixture.ledger.apply(changes)).toEqual({ conflicts: [], created: 0 });
    expect(await Promise.all([ran, missed].map(onceOf))).toEqual(["completed", "missed"]);
    expect(await reasonsOf(missed)).toEqual(["deadline"]);
  });

  test("at which it was missed: it runs, late", async () => {
    const at = Date.now() - 2_000;
    const of = once(at, { startingDeadlineSeconds: 0 });
    await reconcile(of);
    expect(await onceOf(of)).toBe("missed");
    const later = movedTo(of, at + HOUR);
    await reconcile(later);
    const reverted = edited(later, {
      schedule: { kind: "once", at },
      startingDeadlineSeconds: null,
    });
    await reconcile(reverted);
    await fixture.queue.close([success(await started(reverted))]);
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual(["deadline"]);
  });

  test("with a run asked for by annotation: that one runs", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    await fixture.queue.close([success(await started(of))]);
    const later = movedTo(of, at + HOUR);
    await reconcile(later);
    await reconcile({ ...movedTo(later, at), runNow: "again" });
    const run = await started(of);
    expect(run.trigger).toBe("manual");
    await fixture.queue.close([failure(run)]);
    expect(await onceOf(of)).toBe("completed");
  });

  test("while that run is under way: its outcome is yet to come", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await started(of);
    const later = movedTo(of, at + HOUR);
    await reconcile(later);
    await reconcile(movedTo(later, at));
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
  });

  test("while that run is under way, after an attempt that failed: its outcome is yet to come", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() - 1)]);
    const second = await started(of);
    const later = movedTo(of, at + HOUR);
    await reconcile(later);
    await reconcile(movedTo(later, at));
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(second)]);
    expect(await onceOf(of)).toBe("completed");
  });

  test("while that run is being recorded: its outcome counts", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await started(of);
    const later = movedTo(of, at + HOUR);
    await reconcile(later);
    await reconcileWhileItCloses(movedTo(later, at), run);
    expect(await onceOf(of)).toBe("completed");
  });

  test("as a cron, while that run is being recorded: its outcome counts", async () => {
    const at = Math.floor(Date.now() / 1_000) * 1_000 - 1_000;
    const cron = job();
    await fixture.apply(cron, { create: [scheduled(at)], to: { position: at } });
    await reconcileWhileItCloses(movedTo(cron, at), await started(cron));
    expect(await onceOf(cron)).toBe("completed");
    expect(await fixture.runsOf(cron)).toEqual([]);
    expect(await fixture.executionsOf(cron)).toHaveLength(1);
  });

  for (const [older, awaited, becomes] of [
    [failure, success, "completed"],
    [success, failure, "failed"],
  ] as const) {
    test(`as a cron, while that run and an earlier one are under way: ${becomes}, as its own says`, async () => {
      const at = Math.floor(Date.now() / 1_000) * 1_000 - 1_000;
      const cron = job();
      const runs = [];
      for (const time of [at - 60_000, at]) {
        const from = (await fixture.ledger.cursors([cron.uid])).get(cron.uid);
        await fixture.ledger.apply([change(cron, { from, create: [scheduled(time)] })]);
        runs.push(await started(cron));
      }
      const [earlier, run] = runs;
      if (!earlier || !run) throw new Error("no runs");
      await reconcile(movedTo(cron, at));
      await fixture.queue.close([older(earlier)]);
      expect(await onceOf(cron)).toBe("fired");
      await fixture.queue.close([awaited(run)]);
      expect(await onceOf(cron)).toBe(becomes);
    });

    test(`while that run and the one of the other time are under way: ${becomes}, as its own says`, async () => {
      const at = Date.now() - 2_000;
      const { of, run, moved, newer } = await bothUnderWay(at);
      await reconcile(movedTo(moved, at));
      await fixture.queue.close([older(newer)]);
      expect(await onceOf(of)).toBe("fired");
      await fixture.queue.close([awaited(run)]);
      expect(await onceOf(of)).toBe(becomes);
    });
  }

  test("while that run is under way, and the one of the other time is given back: its own outcome counts", async () => {
    const at = Date.now() - 2_000;
    const { of, run, moved, newer } = await bothUnderWay(at);
    await reconcile(movedTo(moved, at));
    await fixture.queue.release([newer], Date.now() - 1);
    await refused(await claimOne(fixture.queue, of));
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual(["superseded"]);
  });

  test.each([
    { attempts: "no attempt", retried: false, refusedAs: "armed", becomes: "completed" },
    { attempts: "an attempt", retried: true, refusedAs: "failed", becomes: "failed" },
  ])(
    "with Replace, while that run, which the other time has replaced, is given back after $attempts: $becomes",
    async ({ retried, refusedAs, becomes }) => {
      const at = Date.now() - 2_000;
      const of = once(at, { concurrencyPolicy: "Replace" });
      await reconcile(of);
      if (retried) await fixture.queue.close([retry(await started(of), Date.now() - 1)]);
      const run = await started(of);
      const moved = movedTo(of, at + 1_000);
      await reconcile(moved);
      expect(await fixture.queue.unwanted([run.id])).toEqual(new Map([[run.id, "replaced"]]));
      const reverted = movedTo(moved, at);
      await reconcile(reverted);
      await fixture.queue.release([run]);
      await refused(await claimOne(fixture.queue, of));
      expect(await onceOf(of)).toBe(refusedAs);
      expect(await reasonsOf(of)).toEqual(["superseded"]);
      await reconcile(reverted);
      for (const _ of await fixture.runsOf(of))
        await fixture.queue.close([success(await started(of))]);
      expect(await onceOf(of)).toBe(becomes);
    },
  );

  const late: {
    name: string;
    policy: Partial<JobSpec>;
    /** The run of its time is under way. */
    underWay?: boolean;
    /** The other time has passed. */
    inBetween?: boolean;
    /** Retention has removed the execution. */
    forgotten?: boolean;
  }[] = [
    { name: "its deadline has passed", policy: { startingDeadlineSeconds: 0 } },
    { name: "its deadline has passed", policy: { startingDeadlineSeconds: 0 }, underWay: true },
    {
      name: "its deadline has passed, and only the history is left",
      policy: { startingDeadlineSeconds: 0 },
      forgotten: true,
    },
    {
      name: "the run of the other time is under way",
      policy: { concurrencyPolicy: "Forbid" },
      inBetween: true,
    },
  ];
  for (const { name, policy, underWay = false, inBetween = false, forgotten = false } of late)
    test(`${name}: it has not missed what ${underWay ? "goes on" : "was delivered"}`, async () => {
      const at = Date.now() - 2_000;
      const of = once(at);
      await reconcile(of);
      const run = await started(of);
      if (!underWay) await fixture.queue.close([success(run)]);
      if (forgotten) await forget(of);
      const later = movedTo(of, inBetween ? at + 1_000 : at + HOUR);
      await reconcile(later);
      const other = inBetween ? [failure(await started(later))] : [];

      const reverted = edited(later, { schedule: { kind: "once", at }, ...policy });
      const change = await decided(reverted);
      if (change === undefined) throw new Error("nothing to apply");
      expect(change.missed).toHaveLength(1);
      expect(await fixture.ledger.apply([change])).toEqual({ conflicts: [of.uid], created: 0 });
      await fixture.queue.close(underWay ? [success(run)] : other);
      expect(await onceOf(of)).toBe("completed");
      expect(await decided(reverted)).toBeUndefined();
      expect(await reasonsOf(of)).toEqual([]);
    });

  for (const [older, newer, becomes] of [
    [failure, success, "completed"],
    [success, failure, "failed"],
  ] as const)
    test(`both outcomes at once: that of the newer time counts, ${becomes}`, async () => {
      const both = await bothUnderWay(Date.now() - 2_000);
      const { of } = both;
      await fixture.queue.close([older(both.run), newer(both.newer)]);
      expect(await onceOf(of)).toBe(becomes);
    });

  test("both outcomes at once, and an edit that made no run: that of the newer time counts, also if it is older", async () => {
    const { of, run, moved, newer } = await bothUnderWay(Date.now() - 2_000);
    await reconcile(edited(moved, { name: "edited" }));
    await fixture.queue.close([success(run, Date.now() + 1_000), failure(newer)]);
    expect(await onceOf(of)).toBe("failed");
  });

  test("both outcomes at once, behind a job store that was restored: that of its time counts", async () => {
    const at = Date.now() - 2_000;
    const backup = once(at + 1_000);
    const moved = movedTo(edited(backup, { name: "edited" }), at);
    await reconcile(moved);
    const given = await started(moved);
    await takenUpAgain(backup);
    await fixture.queue.close([failure(given), success(await started(backup))]);
    expect(await onceOf(backup)).toBe("completed");
  });

  test("under another account of its namespace: it has run then, whatever the other times were", async () => {
    const accounts = createAccounts({ pool: fixture.pool, onDelete: cancelAccountRuns });
    const gone = await accounts.create({ name: "gone before", namespace: "put-back" });
    const at = Date.now() - 3_000;
    const of = { ...once(at), id: "applied", account: gone.id };
    await reconcile(of);
    await fixture.queue.close([failure(await started(of))]);
    await accounts.delete(gone.id);
    await reconcile({ ...of, account: null });
    const next = await accounts.create({ name: "next there", namespace: "put-back" });
    const moved = movedTo({ ...of, account: next.id }, at + 1_000);
    await reconcile(moved);
    await fixture.queue.close([success(await started(moved))]);
    const reverted = movedTo(moved, at);
    await reconcile(reverted);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await onceOf(of)).toBe("failed");
  });

  test("under another account, while the former one lives on: it has not missed what that one delivered", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    await reconcile(of);
    await fixture.queue.close([success(await started(of))]);
    const moved = movedTo({ ...of, account: randomUUID() }, at + HOUR);
    await reconcile(moved);
    const late = { schedule: { kind: "once", at }, startingDeadlineSeconds: 0 } as const;
    const change = await decided(edited(moved, late));
    expect(change?.missed).toHaveLength(1);
    await fixture.ledger.apply(change ? [change] : []);
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual([]);
  });

  const forgottenEnds: { name: string; end: (run: ClaimedRun) => Promise<unknown> }[] = [
    { name: "fails", end: (run) => fixture.queue.close([failure(run)]) },
    { name: "gets a 410", end: (run) => fixture.queue.close([failure(run, "halted")]) },
    { name: "is to be retried", end: (run) => fixture.queue.close([retry(run, Date.now() - 1)]) },
    {
      name: "is interrupted",
      end: async (run) => {
        await expireLease(fixture, run);
        expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
      },
    },
  ];
  for (const { name, end } of forgottenEnds)
    test(`a run that ${name}, and whose number a restored job store gave to another time: that one's outcome is yet to come`, async () => {
      const at = Date.now() - 2_000;
      const backup = once(at + HOUR);
      const forgotten = movedTo(backup, at);
      await reconcile(forgotten);
      const run = await started(forgotten);
      await takenUpAgain(backup);
      const moved = movedTo(backup, at + 1_000);
      expect(moved.generation).toBe(forgotten.generation);
      await reconcile(moved);
      await end(run);
      expect(await onceOf(moved)).toBe("fired");
      await delivers(moved, at + 1_000);
      expect(await fixture.executionsOf(moved)).toHaveLength(2);
    });

  test("a manual run of a newer generation leaves the outcome to the one at its time", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    const newer = edited(of, { name: "edited" });
    await reconcile(newer);
    expect(await fixture.ledger.runNow(newer, "k")).toBe(true);
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
    await fixture.cancel([of]);
  });
});

describe("made a cron job and back, at the same time", () => {
  test("while its run waited: that one is superseded, and it runs late", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const cron = toCron(of);
    await reconcile(cron);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "armed" });
    expect(await reasonsOf(of)).toEqual(["superseded"]);
    const back = movedTo(cron, at);
    await reconcile(back);
    await fixture.queue.close([success(await started(back))]);
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual(["superseded"]);
  });

  test("while its run is under way: the cron job is not settled by it, its outcome is yet to come", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await started(of);
    const cron = toCron(of);
    await reconcile(cron);
    expect(await onceOf(of)).toBe("armed");
    await reconcile(movedTo(cron, at));
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
  });

  test("after its run ended under the cron job: it has run", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await started(of);
    const cron = toCron(of);
    await reconcile(cron);
    await fixture.queue.close([failure(run)]);
    expect(await onceOf(of)).toBe("armed");
    await reconcile(movedTo(cron, at));
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await onceOf(of)).toBe("failed");
    expect(await reasonsOf(of)).toEqual([]);
  });
});

/** An edit of the restored job: it has the number of the forgotten one, another spec and the same time. */
const renumbered = (backup: Job) => edited(backup, { name: "edited anew" });

describe("taken up again behind a job store that was restored", () => {
  test("with its run waiting: it runs as the backup has it", async () => {
    const at = Date.now() - 1_000;
    const backup = once(at);
    const forgotten = edited(backup, { name: "edited" });
    await reconcile(forgotten);
    await takenUpAgain(backup);
    expect((await fixture.runsOf(backup)).map(({ generation }) => generation)).toEqual([1]);
    await delivers(backup, at);
  });

  test("it has run at the time that the backup has: completed", async () => {
    const at = Date.now() - 1_000;
    const backup = once(at);
    await reconcile(backup);
    await fixture.queue.close([success(await started(backup))]);
    const forgotten = movedTo(backup, at + HOUR);
    await reconcile(forgotten);
    expect(await onceOf(backup)).toBe("armed");
    await takenUpAgain(backup);
    expect(await fixture.runsOf(backup)).toEqual([]);
    expect(await onceOf(backup)).toBe("completed");
    expect(await reasonsOf(backup)).toEqual([]);
  });

  test("it has run at the time that the backup has: completed, and not missed, however old it is", async () => {
    const at = Date.now() - 1_000;
    const backup = once(at);
    await reconcile(backup);
    await fixture.queue.close([success(await started(backup))]);
    await reconcile(movedTo(backup, at + HOUR));
    const change = await decided({ ...backup, createdAt: at - HOUR }, true);
    expect(change?.missed).toMatchObject([{ first: at, reason: "downtime" }]);
    await fixture.ledger.apply(change ? [change] : []);
    expect(await onceOf(backup)).toBe("completed");
    expect(await reasonsOf(backup)).toEqual([]);
  });

  test("and its number given to another edit, while its run is under way: its outcome counts", async () => {
    const backup = once(Date.now() - 1_000);
    const forgotten = edited(backup, { name: "edited" });
    await reconcile(forgotten);
    const run = await started(forgotten);
    await reconcile(renumbered(backup));
    expect(await onceOf(backup)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await onceOf(backup)).toBe("completed");
  });

  test("and its number given to another edit between attempts: it has failed", async () => {
    const backup = once(Date.now() - 1_000);
    const forgotten = edited(backup, { name: "edited" });
    await reconcile(forgotten);
    await fixture.queue.close([retry(await started(forgotten), Date.now() + HOUR)]);
    await reconcile(renumbered(backup));
    expect(await onceOf(backup)).toBe("failed");
    expect(await fixture.runsOf(backup)).toEqual([]);
    expect(await reasonsOf(backup)).toEqual([]);
  });

  test("deleted while its run waited: it runs late", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.cancel([of]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "fired", deleted: true });
    await takenUpAgain(of);
    await fixture.queue.close([success(await started(of))]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "completed", deleted: false });
    expect(await reasonsOf(of)).toEqual(["deleted"]);
  });

  test("deleted while its run is under way: it goes on to wait for it", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    await fixture.cancel([of]);
    await takenUpAgain(of);
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([success(run)]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "completed", deleted: false });
  });

  test("deleted while its run is under way, which has ended since: its outcome counts", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    await fixture.cancel([of]);
    await fixture.queue.close([success(run)]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "completed", deleted: true });
    await takenUpAgain(of);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "completed", deleted: false });
    expect(await fixture.runsOf(of)).toEqual([]);
  });
});

describe("refused at its start", () => {
  test("paused before any attempt: it is armed again, and runs on resume", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    const halted = await cursorOf(fixture.ledger, of);
    // The news come after the commit.
    await until("the halt is told", () => told.has(of.uid));
    told.clear();
    await refused(run);
    const armed = await cursorOf(fixture.ledger, of);
    expect(armed).toMatchObject({ once: "armed", version: halted.version + 1 });
    expect(armed.position).toBeLessThan(at);
    await until("it is told", () => told.has(of.uid));

    await reconcile(of);
    expect(await fixture.runsOf(of)).toEqual([]);
    await fixture.ledger.liftHalt(of);
    await reconcile(of);
    await delivers(of, at);
  });

  test("paused, by a worker that dies right after that: the leader hears of it all the same", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    await until("the halt is told", () => told.has(of.uid));
    told.clear();
    const dying = dyingAfter("drop_unwanted_runs", fixture.pool);
    await fixture.anotherQueue(dying).start([run]);
    expect(await onceOf(of)).toBe("armed");
    await everythingIsTold();
    expect(told).toContain(of.uid);
  });

  test("paused before its time: it runs at its time after all", async () => {
    const at = Date.now() + 10_000;
    const of = once(at);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    await refused(run);
    expect(await onceOf(of)).toBe("armed");
    await fixture.ledger.liftHalt(of);
    await reconcile(of);
    await delivers(of, at);
  });

  test("paused between attempts: it has failed", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() - 1)]);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    await refused(run);
    expect(await onceOf(of)).toBe("failed");
    expect(await reasonsOf(of)).toEqual([]);
    await fixture.ledger.liftHalt(of);
    await reconcile(of);
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  test("superseded by an edit that made no run of its own: it runs as edited", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    const newer = await givenBackAfterAnEdit(of, { name: "edited" });
    await refused(await claimOne(fixture.queue, of));
    expect(await onceOf(of)).toBe("armed");
    await reconcile(newer);
    expect((await fixture.runsOf(of)).map(({ generation }) => generation)).toEqual([2]);
    await delivers(newer, at);
  });

  test("superseded between attempts: it has failed", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() - 1)]);
    const second = await started(of);
    await reconcile(edited(of, { name: "edited" }));
    await fixture.queue.release([second], Date.now() - 1);
    await refused(await claimOne(fixture.queue, of));
    expect(await onceOf(of)).toBe("failed");
    expect(await reasonsOf(of)).toEqual([]);
  });

  const lastTries: { name: string; meanwhile: (of: Job) => Promise<unknown> }[] = [
    {
      name: "superseded under its attempt",
      meanwhile: (of) => reconcile(edited(of, { name: "edited" })),
    },
    { name: "deleted under its attempt", meanwhile: (of) => fixture.cancel([of]) },
    { name: "halted under its attempt", meanwhile: halt },
  ];
  for (const { name, meanwhile } of lastTries)
    test(`${name}: it has failed, without another`, async () => {
      const of = once(Date.now() - 1_000);
      await reconcile(of);
      const run = await started(of);
      await meanwhile(of);
      await fixture.queue.close([retry(run, Date.now() + HOUR)]);
      expect(await onceOf(of)).toBe("failed");
      expect(await fixture.runsOf(of)).toEqual([]);
      expect(await reasonsOf(of)).toEqual([]);
    });

  test("superseded by a new time, whose outcome is yet to come: that one counts", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    const newer = await givenBackAfterAnEdit(of, { schedule: { kind: "once", at: at + 1_000 } });
    const runs = await fixture.queue.claim({
      worker: "w",
      limit: 2,
      until: Date.now(),
      leaseMs: 9_000,
    });
    // Each run has the spec of its own generation.
    expect(new Map(runs.map(({ generation, spec }) => [generation, spec.schedule]))).toEqual(
      new Map([of, newer].map(({ generation, spec }) => [generation, spec.schedule])),
    );
    const renewed = runs.filter(({ generation }) => generation === newer.generation);
    expect(await fixture.queue.start(runs)).toEqual(new Set(renewed.map(({ id }) => id)));
    expect(await onceOf(of)).toBe("fired");
    expect(await reasonsOf(of)).toEqual(["superseded"]);
    await fixture.queue.close(renewed.map((run) => success(run)));
    expect(await onceOf(of)).toBe("completed");
  });

  test("superseded by a new time that has had its outcome: that one counts", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    await reconcile(of);
    const old = await started(of);
    await reconcile(movedTo(of, at + 1_000));
    await fixture.queue.close([success(await started(of))]);
    await fixture.queue.release([old], Date.now() - 1);
    await refused(await claimOne(fixture.queue, of));
    expect(await onceOf(of)).toBe("completed");
    expect(await reasonsOf(of)).toEqual(["superseded"]);
  });

  test("while a leader writes the cursor: it stays for the next start, and nobody waits", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    const leader = await openTransaction(
      fixture.pool,
      "update job_cursors set version = version + 1 where job_uid = $1",
      [of.uid],
    );
    await refused(run);
    await leader.commit();
    expect((await fixture.runsOf(of)).map(({ state }) => state)).toEqual(["claimed"]);
    expect(await onceOf(of)).toBe("fired");
    await refused(run);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await onceOf(of)).toBe("armed");
  });

  test("a leader has written the cursor in the meantime: it stays for the next start", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    const other = await lockedRunsOf(fixture, of);
    const refusing = refused(run);
    await untilLockWaits(fixture.pool);
    await fixture.pool.query(
      "update job_cursors set version = version + 1, startable = true where job_uid = $1",
      [of.uid],
    );
    await other.commit();
    await refusing;
    expect((await fixture.runsOf(of)).map(({ state }) => state)).toEqual(["claimed"]);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
  });

  test("deleted: that is recorded", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    await fixture.cancel([of]);
    await fixture.queue.release([run], Date.now() - 1);
    await refused(await claimOne(fixture.queue, of));
    expect(await reasonsOf(of)).toEqual(["deleted"]);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await onceOf(of)).toBe("fired");
  });

  test("a manual run beside it: it is still under way", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    await fixture.ledger.runNow(of, "k");
    const manual = await claimOne(fixture.queue, of);
    await fixture.pool.query(
      "insert into accounts (id, name, deleted_at) values ($1::uuid, $1::text, now())",
      [of.account],
    );
    await refused(manual);
    expect(await onceOf(of)).toBe("fired");
    expect(await reasonsOf(of)).toEqual(["account_deleted"]);
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
  });
});

/** Closes the run while the leader is held up after it has written the cursor, and before it creates any run. */
async function closedMeanwhile(of: Job, newer: Job): Promise<void> {
  const { pool, ledger, queue } = fixture;
  const run = await started(of);
  const change = await decided(newer);
  if (change === undefined) throw new Error("nothing to apply");
  const other = await openTransaction(pool, "insert into job_revisions values ($1, $2, '{}')", [
    newer.uid,
    newer.generation,
  ]);
  const applied = ledger.apply([change]);
  await untilLockWaits(pool);
  const closed = queue.close([success(run)]);
  await untilLockWaits(pool, 2);
  await other.rollback();
  expect((await applied).conflicts).toEqual([]);
  expect(await closed).toEqual(new Set([run.id]));
}

describe("closed while its job is", () => {
  test("given a new time: that one's outcome is yet to come", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    await reconcile(of);
    await closedMeanwhile(of, movedTo(of, at + 1_000));
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.close([failure(await started(of))]);
    expect(await onceOf(of)).toBe("failed");
  });

  test("given a new time, after it was a cron whose run is closed: that one's outcome is yet to come", async () => {
    const at = Date.now() - 1_000;
    const cron = job();
    await fixture.apply(cron, { create: [scheduled(at)] });
    const run = await started(cron);
    await reconcile(movedTo(cron, at));
    expect(await onceOf(cron)).toBe("fired");
    const leader = await openTransaction(
      fixture.pool,
      `update job_cursors set once = 'armed', generation = 3, version = version + 1
        where job_uid = $1`,
      [cron.uid],
    );
    const closing = fixture.queue.close([success(run)]);
    await untilLockWaits(fixture.pool);
    await leader.commit();
    expect(await closing).toEqual(new Set([run.id]));
    expect(await onceOf(cron)).toBe("armed");
  });

  test("left alone, by a 410: it has failed, and does not run when the halt is lifted", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.queue.close([failure(await started(of), "halted")]);
    const halted = { once: "failed", haltedGeneration: 1, startable: false };
    expect(await cursorOf(fixture.ledger, of)).toMatchObject(halted);
    await reconcile(of);
    await fixture.ledger.liftHalt(of);
    await reconcile(of);
    const lifted = { once: "failed", haltedGeneration: null, startable: true };
    expect(await cursorOf(fixture.ledger, of)).toMatchObject(lifted);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("left alone, by another worker, because its own is dead: it has failed", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await expireLease(fixture, await started(of));
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 1 });
    expect(await onceOf(of)).toBe("failed");
    expect(await decided(of)).toBeUndefined();
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("edited otherwise: the outcome is its own", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await closedMeanwhile(of, edited(of, { name: "edited" }));
    expect(await onceOf(of)).toBe("completed");
  });
});

describe("dropped by a change", () => {
  test("resumed from a halt before it started: it runs, nothing is recorded", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    // It waits, for a circuit for instance.
    const waiting = await claimOne(fixture.queue, of);
    await halt(of);
    await fixture.queue.release([waiting], Date.now() - 1);
    await fixture.ledger.liftHalt(of);
    expect(await fixture.runsOf(of)).toEqual([]);
    await reconcile(of);
    await delivers(of, at);
  });

  test("edited before it started: it runs as edited, and the change is all that is written", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const newer = edited(of, { name: "edited" });
    const change = await decided(newer);
    expect(await fixture.ledger.apply(change ? [change] : [])).toEqual({
      conflicts: [],
      created: 1,
    });
    const version = (change?.from?.version ?? 0) + 1;
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "fired", version });
    expect((await fixture.runsOf(of)).map(({ generation }) => generation)).toEqual([2]);
    await delivers(newer, at);
  });

  test("deleted before it started: that is recorded", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.cancel([of]);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual(["deleted"]);
  });

  test("given back between an edit's decision and its change: it runs as edited", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const run = await started(of);
    const newer = edited(of, { name: "edited" });
    const change = await decided(newer);
    if (change === undefined) throw new Error("nothing to apply");
    await fixture.queue.release([run], Date.now() - 1);
    told.clear();
    await fixture.ledger.apply([change]);
    await until("it is told", () => told.has(of.uid));
    await reconcile(newer);
    expect((await fixture.runsOf(of)).map(({ generation }) => generation)).toEqual([2]);
    await delivers(newer, at);
  });

  test("between attempts, by the change that creates the run of its new time: that one counts", async () => {
    const at = Date.now() - 2_000;
    const of = once(at);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() + HOUR)]);
    const newer = movedTo(of, at + 1_000);
    await reconcile(newer);
    expect(await onceOf(of)).toBe("fired");
    await delivers(newer, at + 1_000);
  });

  test("between attempts, by a pause: it has failed, and does not run on resume", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() + HOUR)]);
    const paused = edited(of, { suspend: true });
    await reconcile(paused);
    expect(await onceOf(of)).toBe("failed");
    await reconcile(edited(paused, { suspend: false }));
    expect(await onceOf(of)).toBe("failed");
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("between attempts, by an edit that was decided before the first: it has failed, without another", async () => {
    const at = Date.now() - 1_000;
    const of = once(at);
    await reconcile(of);
    const newer = edited(of, { name: "edited" });
    const change = await decided(newer);
    expect(change?.create).toMatchObject([{ scheduledAt: at }]);
    await fixture.queue.close([retry(await started(of), Date.now() + HOUR)]);
    await fixture.ledger.apply(change ? [change] : []);
    expect(await onceOf(of)).toBe("failed");
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("between attempts, with its job: it has failed", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() + HOUR)]);
    await fixture.cancel([of]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ once: "failed", deleted: true });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("between attempts, with its account: it has failed, and does not run for another one", async () => {
    const { accounts, gone, next } = await oneAfterTheOther("between attempts");
    const of = { ...once(Date.now() - 1_000), id: "applied", account: gone.id };
    await reconcile(of);
    await fixture.queue.close([retry(await started(of), Date.now() + HOUR)]);
    await accounts.delete(gone.id);
    await reconcile({ ...of, account: null });
    await reconcile({ ...of, account: next.id });
    expect(await onceOf(of)).toBe("failed");
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  for (const due of [true, false])
    test(`with its account, ${due ? "due" : "prepared"}: it runs when another account has the namespace`, async () => {
      const { accounts, gone, next } = await oneAfterTheOther(String(due));
      const at = Date.now() + (due ? -1_000 : 10_000);
      const of = { ...once(at), id: "applied", account: gone.id };
      await reconcile(of);
      await accounts.delete(gone.id);
      expect(await fixture.runsOf(of)).toEqual([]);
      await reconcile({ ...of, account: null });
      const rebound = { ...of, account: next.id };
      await reconcile(rebound);
      await delivers(rebound, at);
    });

  test("at its start, when its account was deleted meanwhile: the same", async () => {
    const { accounts, gone, next } = await oneAfterTheOther("late");
    const at = Date.now() - 1_000;
    const of = { ...once(at), id: "applied", account: gone.id };
    await reconcile(of);
    const run = await started(of);
    await accounts.delete(gone.id);
    await fixture.queue.release([run], Date.now() - 1);
    told.clear();
    await refused(await claimOne(fixture.queue, of));
    // The leader is not told: without news of the deletion it would only create the run again, to be refused again.
    await everythingIsTold();
    expect(told).not.toContain(of.uid);
    await reconcile({ ...of, account: null });
    const rebound = { ...of, account: next.id };
    await reconcile(rebound);
    await delivers(rebound, at);
  });

  test("at its start, when its namespace got another account meanwhile: the leader is told, and it runs", async () => {
    const { accounts, gone, next } = await oneAfterTheOther("under way");
    const at = Date.now() - 1_000;
    const of = { ...once(at), id: "applied", account: gone.id };
    await reconcile(of);
    const run = await started(of);
    await accounts.delete(gone.id);
    const rebound = { ...of, account: next.id };
    await reconcile(rebound);
    expect(await onceOf(of)).toBe("fired");
    await fixture.queue.release([run], Date.now() - 1);
    told.clear();
    await refused(await claimOne(fixture.queue, of));
    await everythingIsTold();
    expect(told).toContain(of.uid);
    await reconcile(rebound);
    await delivers(rebound, at);
  });

  test("but not with a namespace that leaves an account which lives on: its run, and the retries, are that one's", async () => {
    const { gone: former, next } = await oneAfterTheOther("lives on");
    const of = { ...once(Date.now() - 1_000), account: former.id };
    await reconcile(of);
    const rebound = { ...of, account: next.id };
    await reconcile(rebound);
    expect((await cursorOf(fixture.ledger, of)).account).toBe(next.id);
    await fixture.queue.close([retry(await started(of), Date.now() - 1)]);
    const again = await started(of);
    expect(again).toMatchObject({ account: former.id, attempt: 2 });
    await fixture.queue.close([success(again)]);
    await reconcile(rebound);
    expect(await onceOf(of)).toBe("completed");
    expect(await fixture.executionsOf(of)).toHaveLength(2);
    expect(await fixture.executionsOf(rebound)).toEqual([]);
    expect(await reasonsOf(of)).toEqual([]);
  });

  test("with its account, a manual run beside one that is under way: that goes on, and only the other is recorded", async () => {
    const of = once(Date.now() - 1_000);
    await reconcile(of);
    const run = await started(of);
    await fixture.ledger.runNow(of, "k");
    await reconcile({ ...of, account: null });
    expect((await fixture.runsOf(of)).map(({ id }) => id)).toEqual([run.id]);
    expect(await onceOf(of)).toBe("fired");
    expect(await reasonsOf(of)).toEqual(["account_deleted"]);
    await fixture.queue.close([success(run)]);
    expect(await onceOf(of)).toBe("completed");
  });
});

describe("what a leader tells of it", () => {
  /** By job: the generation and the phase. */
  const statuses = new Map<string, string>();
  const account = randomUUID();
  let jobs: JobStore;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    const { pool, ledger } = fixture;
    const clock = createPostgresClock({ pool, monotonic });
    await clock.start();
    jobs = createPostgresJobStore({ pool, notifications, timers });
    const leaving = new AbortController();
    const done = createController({
      jobs,
      ledger,
      clock,
      timers,
      leadership: alwaysLeader(),
      monotonic: () => performance.now(),
      random: Math.random,
      metrics: createMetrics({ version: "test", nodeMetrics: false }),
      log: createLogger({ level: "silent" }),
      news: createLedgerNews({ notifications }),
      reporter: {
        report: (of, { status }) => void statuses.set(of.id, `${of.generation} ${status}`),
        closed: () => {},
        forget: () => {},
        clear: () => {},
      },
    }).run(leaving.signal);
    stop = async () => {
      leaving.abort();
      await done;
      clock.stop();
    };
  });
  afterAll(async () => {
    await stop?.();
  });

  const reported = (of: Job, status: JobStatus) =>
    until(status, () => statuses.get(of.id) === `${of.generation} ${status}`);

  test("put back to a time that it has run at: completed", async () => {
    const at = Date.now() - 1_000;
    const of = await jobs.create({ account, id: "job-reverted", spec: onceSpec(at) });
    await until("created", async () => (await fixture.runsOf(of)).length > 0);
    await fixture.queue.close([success(await started(of))]);
    await reported(of, "completed");
    const later = await jobs.update(of, onceSpec(at + HOUR));
    await reported(later, "active");
    await reported(await jobs.update(later, onceSpec(at)), "completed");
    expect(await onceOf(of)).toBe("completed");
  });

  test("halted before its run started, and resumed: it runs, and has completed", async () => {
    const of = await jobs.create({
      account,
      id: "job-halted",
      spec: onceSpec(Date.now() - 1_000),
    });
    await until("created", async () => (await fixture.runsOf(of)).length > 0);
    const run = await claimOne(fixture.queue, of);
    await halt(of);
    await refused(run);
    await reported(of, "paused");
    await fixture.ledger.liftHalt(of);
    await until("created again", async () => (await fixture.runsOf(of)).length > 0);
    await delivers(of, run.scheduledAt);
    await reported(of, "completed");
    expect(await fixture.runsOf(of)).toEqual([]);
  });
});
