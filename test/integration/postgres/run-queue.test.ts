import { randomUUID } from "node:crypto";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
} from "vitest";
import {
  asLast,
  change,
  claimed,
  claimOne,
  cursorOf,
  expireLease,
  failure,
  fallDue,
  job,
  lockedRunsOf,
  measured,
  retry,
  runsFixture,
  scheduled,
  spec,
  startedRun,
  startOne,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import {
  CLOSED_CHANNEL,
  createNotifications,
  CURSORS_CHANNEL,
  type Notifications,
} from "../../../src/postgres/notifications.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createRunQueue } from "../../../src/postgres/run-queue.ts";
import { aroundQueries } from "../../postgres/around-queries.ts";
import { createLimitedRole } from "../../postgres/limited-role.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction, type OpenTransaction } from "../../postgres/open-transaction.ts";
import { until } from "../../until.ts";
import { HOUR } from "../../../src/domain/instant.ts";
import { destinationKey } from "../../../src/domain/destination.ts";
import type { Job } from "../../../src/domain/job.ts";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import { UNREADABLE } from "../../../src/domain/stored-spec.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
});
// Other tests would claim the runs that a test leaves.
beforeEach(() => fixture.pool.query("delete from runs"));
afterAll(async () => {
  await fixture?.close();
});

const renewed = (...runs: { id: string }[]) => new Map(runs.map(({ id }) => [id, "renewed"]));

/** A claim of the job's run that was lost while its worker slept: the run waits to be claimed by another. */
async function lostClaim(of: Job): Promise<ClaimedRun> {
  const run = await claimed(fixture, of);
  await expireLease(fixture, run);
  expect((await fixture.queue.reap()).requeued).toBe(1);
  return run;
}

describe("claim", () => {
  test("workers on several connections share the queue without overlap", async () => {
    const jobs = Array.from({ length: 300 }, () => job());
    await fixture.ledger.apply(
      jobs.map((of) => change(of, { create: [scheduled(Date.now() - 5)] })),
    );
    const queues = [fixture.queue, fixture.anotherQueue(), fixture.anotherQueue()];
    const claims = await Promise.all(
      queues.flatMap((queue, i) =>
        Array.from({ length: 5 }, () =>
          queue.claim({ worker: `w${i}`, limit: 20, until: Date.now(), leaseMs: 9_000 }),
        ),
      ),
    );
    const ids = claims.flat().map((run) => run.id);
    expect(ids).toHaveLength(300);
    expect(new Set(ids).size).toBe(300);
  });

  test("carries what an attempt needs, oldest first, none beyond `until`", async () => {
    const of = job();
    const now = Date.now();
    await fixture.apply(of, {
      create: [scheduled(now - 1_000), scheduled(now - 2_000), scheduled(now + 10_000)],
    });
    const request = { worker: "w", limit: 10, leaseMs: 9_000 };
    const runs = await fixture.queue.claim({ ...request, until: now });
    expect(runs.map((run) => run.scheduledAt)).toEqual([now - 2_000, now - 1_000]);
    expect(runs[0]).toMatchObject({
      account: of.account,
      jobUid: of.uid,
      jobId: of.id,
      generation: 1,
      trigger: "schedule",
      notBefore: now - 2_000,
      attempt: 1,
      spec: of.spec,
    });
    const prepared = await fixture.queue.claim({ ...request, until: now + 20_000 });
    expect(prepared.map((run) => run.notBefore)).toEqual([now + 10_000]);
  });

  test("looks at none before `from`", async () => {
    const of = job();
    const now = Date.now();
    await fixture.apply(of, {
      create: [scheduled(now - 2_000), scheduled(now - 1_000), scheduled(now)],
    });
    const request = { worker: "w", limit: 10, leaseMs: 9_000, until: now };
    const later = await fixture.queue.claim({ ...request, from: now - 1_000 });
    expect(later.map((run) => run.notBefore)).toEqual([now - 1_000, now]);
    const all = await fixture.queue.claim({ ...request, from: null });
    expect(all.map((run) => run.notBefore)).toEqual([now - 2_000]);
  });

  test("what is given back, or moves to another generation, is told of from its own time on", async () => {
    const of = job();
    const now = Date.now();
    const told: (number | null)[] = [];
    const stop = fixture.anotherQueue().onWake((since) => told.push(since));
    await expect.poll(() => told).toEqual([null]);
    const run = await claimed(fixture, of, { at: now - 60_000 });
    await fixture.queue.release([run]);
    await expect.poll(() => told).toEqual([null, now - 60_000, now - 60_000]);
    // Nobody is woken for a run that may start only later.
    await fixture.queue.release([await claimOne(fixture.queue, of)], now + 60_000);

    await fixture.ledger.runNow(of, "asked");
    await expect.poll(() => told.length).toBe(4);
    const [manual] = (
      await fixture.queue.claim({ worker: "w", limit: 10, until: now + 10_000, leaseMs: 9_000 })
    ).filter(({ trigger }) => trigger === "manual");
    expect(told[3]).toBe(manual?.notBefore);
    await fixture.apply({ ...of, generation: 2 });
    await expect.poll(() => told.length).toBe(5);
    expect(told[4]).toBe(manual?.notBefore);
    stop();
  });

  test("lasts as long as asked, by PostgreSQL's clock, whichever runs are asked for", async () => {
    const at = Date.now() - 60_000;
    const request = { worker: "w", limit: 1 };
    for (const [until, leaseMs, requeued] of [
      [at, 30_000, 0],
      [Date.now() + HOUR, -1, 1],
    ] as const) {
      const of = job();
      await fixture.apply(of, { create: [scheduled(at)] });
      expect(await fixture.queue.claim({ ...request, until, leaseMs })).toHaveLength(1);
      expect(await fixture.queue.reap()).toEqual({ requeued, interrupted: 0 });
      await fixture.cancel([of]);
    }
  });

  test("waits for nobody who holds a run", async () => {
    const [held, free] = [job(), job()];
    for (const of of [held, free]) await fixture.apply(of, { create: [scheduled(Date.now() - 1)] });
    const holder = await lockedRunsOf(fixture, held);
    const run = await claimOne(fixture.queue, free);
    await holder.rollback();
    expect(run.jobUid).toBe(free.uid);
  });

  test("passes over accounts and destinations at their limit, and jobs whose records wait", async () => {
    const [a, b, c, d] = [job(), job(), job(), job()];
    for (const of of [a, b, c, d]) await fixture.apply(of, { create: [scheduled(1)] });
    const runs = await fixture.queue.claim({
      worker: "w",
      limit: 10,
      until: Date.now(),
      leaseMs: 9_000,
      exceptAccounts: [a.account ?? ""],
      exceptDestinations: [destinationKey(b.account ?? "", b.spec.target)],
      exceptJobs: [d.uid],
    });
    expect(runs.map((run) => run.jobUid)).toEqual([c.uid]);
  });

  test("depth and a wake-up tell of waiting runs", async () => {
    const of = job();
    const told: (number | null)[] = [];
    const stop = fixture.anotherQueue().onWake((since) => told.push(since));
    // null: some news may have been lost before it listened.
    await expect.poll(() => told).toEqual([null]);
    const at = Date.now() - 5_000;
    await fixture.apply(of, { create: [scheduled(at)] });
    await expect.poll(() => told).toEqual([null, at]);
    stop();
    const depth = await fixture.queue.depth();
    expect(depth).toMatchObject({ queued: 1, started: 0 });
    expect(depth.oldestDueMs).toBeGreaterThanOrEqual(5_000);
  });
});

describe("start", () => {
  const refused = [
    {
      why: "the lease ran out",
      by: (run: { id: string }) => expireLease(fixture, run),
      recorded: null,
    },
    {
      why: "the cursor says paused",
      by: (_: unknown, of: Job) =>
        fixture.pool.query("update job_cursors set startable = false where job_uid = $1", [of.uid]),
      recorded: "paused",
    },
    {
      why: "the cursor is at another generation",
      by: (_: unknown, of: Job) =>
        fixture.pool.query("update job_cursors set generation = 9 where job_uid = $1", [of.uid]),
      recorded: "superseded",
    },
    {
      why: "the job is deleted",
      by: (_: unknown, of: Job) =>
        fixture.pool.query("update job_cursors set deleted_at = now() where job_uid = $1", [
          of.uid,
        ]),
      recorded: "deleted",
    },
    {
      why: "nothing is known of the job",
      by: (_: unknown, of: Job) =>
        fixture.pool.query("delete from job_cursors where job_uid = $1", [of.uid]),
      recorded: "deleted",
    },
    {
      why: "the account is deleted",
      by: (_: unknown, of: Job) =>
        fixture.pool.query(
          "insert into accounts (id, name, deleted_at) values ($1::uuid, $1::text, now())",
          [of.account],
        ),
      recorded: "account_deleted",
    },
    {
      why: "the namespace has lost its account",
      by: (_: unknown, of: Job) =>
        fixture.pool.query("update job_cursors set account = null where job_uid = $1", [of.uid]),
      recorded: "account_deleted",
    },
    {
      why: "the run was replaced",
      by: (run: { id: string }) =>
        fixture.pool.query("update runs set replaced = true where id = $1", [run.id]),
      recorded: "overlap",
    },
  ];
  for (const { why, by, recorded } of refused)
    test(`refused when ${why}`, async () => {
      const of = job();
      const run = await claimed(fixture, of);
      await by(run, of);
      const { pastDeadline } = fixture;
      expect(await fixture.queue.start([run])).toEqual(new Set());
      expect(fixture.pastDeadline).toBe(pastDeadline);
      expect((await fixture.missedOf(of)).map(({ reason }) => reason)).toEqual(
        recorded === null ? [] : [recorded],
      );
      expect(await fixture.runsOf(of)).toHaveLength(recorded === null ? 1 : 0);
    });

  test("refused when the lease runs out while somebody holds the row", async () => {
    const of = job();
    const run = await claimed(fixture, of);
    const holder = await lockedRunsOf(fixture, of);
    const starting = fixture.queue.start([run]);
    await untilLockWaits(fixture.pool);
    await holder.client.query("update runs set lease_until = clock_timestamp() where id = $1", [
      run.id,
    ]);
    await holder.commit();
    expect(await starting).toEqual(new Set());
    expect(await fixture.queue.reap()).toEqual({ requeued: 1, interrupted: 0 });
  });

  test("none before its time by PostgreSQL's clock, and nothing is lost by asking", async () => {
    const at = Date.now() + 60_000;
    const of = job();
    await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
    const run = await claimOne(fixture.queue, of);
    expect(await fixture.queue.start([run])).toEqual(new Set());
    expect(await fixture.missedOf(of)).toEqual([]);
    await fallDue(fixture, of);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    await fixture.queue.close([success(run)]);
  });

  test("a second start of the same claim is none", async () => {
    const of = job();
    const run = await claimed(fixture, of);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    expect(await fixture.queue.start([run])).toEqual(new Set());
    await fixture.queue.close([success(run)]);
  });

  test("what has been started stays, whoever asks for it once more when its job no longer wants it", async () => {
    const of = job();
    const asleep = await lostClaim(of);
    const run = await startOne(fixture.anotherQueue(), of);
    await fixture.pool.query("update job_cursors set startable = false where job_uid = $1", [
      of.uid,
    ]);
    for (const again of [asleep, run])
      expect(await fixture.queue.start([again])).toEqual(new Set());
    expect(await fixture.runsOf(of)).toMatchObject([{ id: run.id, state: "started" }]);
    expect(await fixture.missedOf(of)).toEqual([]);
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
  });

  test("what another worker has claimed stays", async () => {
    const of = job();
    const asleep = await lostClaim(of);
    const run = await claimOne(fixture.anotherQueue(), of);
    const paused = "update job_cursors set startable = $2 where job_uid = $1";
    await fixture.pool.query(paused, [of.uid, false]);
    expect(await fixture.queue.start([asleep])).toEqual(new Set());
    await fixture.pool.query(paused, [of.uid, true]);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    await fixture.queue.close([success(run)]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test.each([
    { after: "an edit", from: 1, to: 2 },
    { after: "the job store was restored, which took the edit back", from: 2, to: 1 },
  ])(
    "a run by hand that is given back after $after is one of the job as it is",
    async ({ from, to }) => {
      const of = job({ generation: from });
      await fixture.apply(of);
      await fixture.ledger.runNow(of, "by hand");
      const run = await startOne(fixture.queue, of);
      const target = { ...of.spec.target, url: "https://other.example/hook" };
      await fixture.apply({ ...of, generation: to, spec: spec({ target }) });
      await fixture.queue.release([run], Date.now() - 1);
      expect(await fixture.queue.start([await claimOne(fixture.queue, of)])).toEqual(new Set());
      const moved = await claimOne(fixture.queue, of);
      // The old receiver's circuit does not hold it up.
      const destination = destinationKey(of.account ?? "", target);
      expect(moved).toMatchObject({ id: run.id, generation: to, attempt: 1, destination });
      expect(await fixture.queue.start([moved])).toEqual(new Set([run.id]));
      await fixture.queue.close([success(moved)]);
      expect(await fixture.missedOf(of)).toEqual([]);
    },
  );

  test("a run by hand is one of the job as it is, also where nobody knows any more what that sends", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "by hand");
    const run = await startOne(fixture.queue, of);
    await fixture.apply({ ...of, generation: 2, spec: spec({ name: "Edited" }) });
    await fixture.pool.query("delete from job_revisions where job_uid = $1", [of.uid]);
    await fixture.queue.release([run], Date.now() - 1);
    expect(await fixture.queue.start([await claimOne(fixture.queue, of)])).toEqual(new Set());
    const moved = await claimOne(fixture.queue, of);
    expect(moved).toMatchObject({ id: run.id, generation: 2, spec: { refusal: UNREADABLE } });
    await fixture.cancel([of]);
  });

  test("a retry by hand that is given back after an edit ends: all attempts must send the same", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "by hand");
    const first = await startOne(fixture.queue, of);
    await fixture.queue.close([retry(first, Date.now())]);
    const second = await startOne(fixture.queue, of);
    await fixture.apply({ ...of, generation: 2, spec: spec({ name: "Edited" }) });
    await fixture.queue.release([second], Date.now() - 1);
    expect(await fixture.queue.start([await claimOne(fixture.queue, of)])).toEqual(new Set());
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("what is refused between attempts has its execution, and is not missed", async () => {
    const of = job();
    const first = await startedRun(fixture, of);
    await fixture.queue.close([retry(first, Date.now())]);
    const second = await claimOne(fixture.queue, of);
    await fixture.pool.query("update job_cursors set startable = false where job_uid = $1", [
      of.uid,
    ]);
    expect(await fixture.queue.start([second])).toEqual(new Set());
    expect(await fixture.runsOf(of)).toEqual([]);
    const { account, id: jobId } = of;
    const page = { account: account ?? "", jobId, limit: 10, offset: 0 };
    const history = await fixture.history.executionsAndMissed(page);
    expect(history.map(({ kind }) => kind)).toEqual(["execution"]);
  });
});

describe("close", () => {
  test("what is refused for its own sake is not said again", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    // A sequence counts, because it is not rolled back.
    await fixture.pool.query(`create sequence said; alter table executions
      add constraint refused check (job_uid <> '${of.uid}' or nextval('said') = 0) not valid`);
    await expect(fixture.queue.close([success(run)])).rejects.toThrow("refused");
    const { rows } = await fixture.pool.query<{ times: number }>(
      "select last_value as times from said",
    );
    expect(rows).toEqual([{ times: 1 }]);
    await fixture.pool.query("alter table executions drop constraint refused; drop sequence said");
    await fixture.queue.close([success(run)]);
  });

  test("records the execution and ends the run, once", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
    expect(await fixture.queue.close([success(run)])).toEqual(new Set());
    expect(await fixture.runsOf(of)).toEqual([]);
    const [execution, ...others] = await fixture.executionsOf(of);
    expect(others).toEqual([]);
    expect(execution).toMatchObject({
      jobId: of.id,
      jobUid: of.uid,
      runId: run.id,
      status: "success",
      httpStatus: 200,
      durationMs: 12,
      errorMessage: null,
      attempt: 1,
      trigger: "schedule",
      scheduledAt: run.scheduledAt,
    });
    const summary = (await fixture.history.summary([of.uid])).get(of.uid);
    expect(summary).toEqual({
      lastScheduleTime: run.scheduledAt,
      lastSuccessTime: execution?.executedAt,
      last: asLast(execution),
    });
  });

  test("a stale token closes nothing, and gives nothing back for a retry", async () => {
    const of = job();
    const stale = await lostClaim(of);
    const run = await claimOne(fixture.anotherQueue(), of, { worker: "w2" });
    expect(await fixture.queue.start([stale])).toEqual(new Set());
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    expect(await fixture.queue.close([success(stale)])).toEqual(new Set());
    expect(await fixture.queue.close([retry(stale, Date.now())])).toEqual(new Set());
    expect(await fixture.runsOf(of)).toMatchObject([{ state: "started", attempts: 0 }]);
    expect(await fixture.executionsOf(of)).toEqual([]);
    expect(await fixture.queue.close([failure(run)])).toEqual(new Set([run.id]));
    expect(await fixture.executionsOf(of)).toHaveLength(1);
  });

  test("retry waits, counts attempts, and sends the same run again", async () => {
    const of = job();
    const first = await startedRun(fixture, of);
    const later = Date.now() + 30_000;
    await fixture.queue.close([retry(first, later)]);
    const request = { worker: "w", limit: 10, leaseMs: 9_000 };
    expect(await fixture.queue.claim({ ...request, until: later - 1 })).toEqual([]);
    const [second] = await fixture.queue.claim({ ...request, until: later });
    expect(second).toMatchObject({ id: first.id, attempt: 2, notBefore: later });
    expect(second?.claimToken).not.toBe(first.claimToken);
    if (second === undefined) throw new Error("not claimed");
    await fixture.queue.start([second]);
    await fixture.queue.close([success(second)]);
    expect((await fixture.executionsOf(of)).map((one) => one.attempt)).toEqual([2, 1]);
  });

  const unwanted: { why: string; by: (of: Job) => Promise<unknown> }[] = [
    { why: "changed", by: (of) => fixture.apply({ ...of, generation: 2 }) },
    { why: "paused", by: (of) => fixture.apply(of, { to: { startable: false } }) },
    { why: "deleted", by: (of) => fixture.cancel([of]) },
  ];
  test.each(unwanted)("is not retried: its job was $why under the attempt", async ({ by }) => {
    const of = job();
    const run = await startedRun(fixture, of);
    await by(of);
    expect(await fixture.queue.close([retry(run, Date.now() + 60_000)])).toEqual(new Set([run.id]));
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.executionsOf(of)).toHaveLength(1);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test.each([
    {
      // The change has looked for waiting runs before, and found none.
      what: "its job is changed",
      sql: "update job_cursors set generation = 2, version = version + 1 where job_uid = $1",
    },
    { what: "it is replaced", sql: "update runs set replaced = true where job_uid = $1" },
  ])(
    "is not retried, and is recorded: $what while the retry waits for that row",
    async ({ sql }) => {
      const of = job();
      const run = await startedRun(fixture, of);
      const other = await openTransaction(fixture.pool, sql, [of.uid]);
      const closing = fixture.queue.close([retry(run, Date.now() + 60_000)]);
      await untilLockWaits(fixture.pool);
      await other.commit();
      expect(await closing).toEqual(new Set([run.id]));
      expect(await fixture.runsOf(of)).toEqual([]);
      expect(await fixture.executionsOf(of)).toHaveLength(1);
    },
  );

  test("a replaced run is not retried", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.pool.query("update runs set replaced = true where id = $1", [run.id]);
    await fixture.queue.close([retry(run, Date.now())]);
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  test("what a deadlock undoes is said again", async () => {
    const { pool } = fixture;
    const of = job();
    const run = await startedRun(fixture, of);
    // In a real deadlock the victim would be random: whoever detects it first, a second after it began to wait.
    await pool.query(
      `create sequence tries;
       create function deadlock() returns trigger language plpgsql as $$
       begin
         if nextval('tries') = 1 then raise 'chosen' using errcode = 'deadlock_detected'; end if;
         return new;
       end $$;
       create trigger deadlock before insert on executions for each row execute function deadlock()`,
    );
    expect(await fixture.queue.close([failure(run, "halted")])).toEqual(new Set([run.id]));
    expect(await fixture.executionsOf(of)).toHaveLength(1);
    const { rows } = await pool.query("select last_value::int as tries from tries");
    expect(rows).toEqual([{ tries: 2 }]);
    await pool.query("drop trigger deadlock on executions");
  });

  test("a cursor that moves again and again is left for later", async () => {
    const { pool } = fixture;
    const of = job();
    const run = await startedRun(fixture, of);
    // As when the cursor has moved since it was read.
    await pool.query(
      `create sequence moves;
       create function moved() returns trigger language plpgsql as $$
       begin
         perform nextval('moves');
         raise 'moved' using errcode = 'invalid_text_representation';
       end $$;
       create trigger moved before insert on executions for each row execute function moved()`,
    );
    await expect(fixture.queue.close([success(run)])).rejects.toThrow(DependencyUnavailable);
    const { rows } = await pool.query("select last_value::int as moves from moves");
    expect(rows).toEqual([{ moves: 8 }]);
    await pool.query("drop trigger moved on executions");
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
    expect(await fixture.executionsOf(of)).toHaveLength(1);
  });

  test("the run of an older time does not settle a one-time that got a new time", async () => {
    const at = Date.now() - 1_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    const old = await startedRun(fixture, of, { at, once: "fired" });
    const newTime = Date.now() - 10;
    const again = {
      ...of,
      generation: 2,
      spec: spec({ schedule: { kind: "once", at: newTime } }),
    };
    const from = await cursorOf(fixture.ledger, of);
    await fixture.ledger.apply([
      change(again, { from, to: { once: "fired" }, create: [scheduled(newTime)] }),
    ]);
    await fixture.queue.close([failure(old)]);
    expect((await cursorOf(fixture.ledger, of)).once).toBe("fired");
    const renewed = await startOne(fixture.queue, again);
    await fixture.queue.close([success(renewed)]);
    expect((await cursorOf(fixture.ledger, of)).once).toBe("completed");
  });

  const finals = [
    { outcome: "success", once: "completed" },
    { outcome: "failed", once: "failed" },
  ] as const;
  for (const { outcome, once } of finals)
    test(`a one-time's ${outcome} makes it ${once}`, async () => {
      const at = Date.now() - 1_000;
      const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
      const run = await startedRun(fixture, of, { at, once: "fired" });
      const before = await cursorOf(fixture.ledger, of);
      await fixture.queue.close([outcome === "success" ? success(run) : failure(run)]);
      const after = await cursorOf(fixture.ledger, of);
      expect(after.once).toBe(once);
      expect(after.version).toBeGreaterThan(before.version);
    });

  test("a one-time that is tried again has its outcome yet to come", async () => {
    const at = Date.now() - 1_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    const run = await startedRun(fixture, of, { at, once: "fired" });
    const before = await cursorOf(fixture.ledger, of);
    await fixture.queue.close([retry(run, Date.now() - 1)]);
    expect(await cursorOf(fixture.ledger, of)).toEqual(before);
    await fixture.queue.close([success(await startOne(fixture.queue, of))]);
    expect((await cursorOf(fixture.ledger, of)).once).toBe("completed");
  });

  test("halted stops the generation that was sent", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.queue.close([failure(run, "halted")]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: 1,
      startable: false,
    });
  });

  test("halted by an older generation does not stop the newer", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.apply({ ...of, generation: 2 });
    await fixture.queue.close([failure(run, "halted")]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: null,
      startable: true,
    });
  });

  test("halted by an older generation does not stop the newer that is written while the outcome is recorded", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const edit = await openTransaction(
      fixture.pool,
      "update job_cursors set generation = 2, version = version + 1 where job_uid = $1",
      [of.uid],
    );
    const closing = fixture.queue.close([failure(run, "halted")]);
    await untilLockWaits(fixture.pool);
    await edit.commit();
    expect(await closing).toEqual(new Set([run.id]));
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: null,
      haltedAt: null,
      startable: true,
    });
  });

  test("a month without a partition gets one", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const executedAt = Date.UTC(2019, 4, 31, 23, 59, 59, 999);
    expect(await fixture.queue.close([success(run, executedAt)])).toEqual(new Set([run.id]));
    expect((await fixture.executionsOf(of))[0]?.executedAt).toBe(executedAt);
  });
});

describe("release and renew", () => {
  test("released runs are free at once, prepared ones not before their time", async () => {
    const of = job();
    const at = Date.now() + 15_000;
    const run = await claimed(fixture, of, { at });
    await fixture.queue.release([run]);
    const request = { worker: "w2", limit: 10, leaseMs: 9_000 };
    expect(await fixture.queue.claim({ ...request, until: Date.now() })).toEqual([]);
    const again = await claimOne(fixture.queue, of);
    expect(again.notBefore).toBe(at);
    expect(await fixture.queue.start([run])).toEqual(new Set());
    await fixture.queue.release([again], at - 5_000);
    expect((await claimOne(fixture.queue, of)).notBefore).toBe(at);
  });

  test("who gives back a run that changes hands meanwhile leaves it to the other", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const claimToken = randomUUID();
    const taken = await openTransaction(
      fixture.pool,
      "update runs set claim_token = $2 where id = $1",
      [run.id, claimToken],
    );
    const giving = fixture.queue.release([run]);
    await untilLockWaits(fixture.pool);
    await taken.commit();
    await giving;
    expect(await fixture.runsOf(of)).toMatchObject([{ state: "started" }]);
    expect(await fixture.queue.close([success({ ...run, claimToken })])).toEqual(new Set([run.id]));
  });

  test("a postponed run leaves no execution and counts no attempt", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const later = Date.now() + HOUR / 2;
    await fixture.queue.release([run], later);
    const again = await claimOne(fixture.queue, of);
    expect(again).toMatchObject({ id: run.id, attempt: 1, notBefore: later, retryAt: null });
    expect(await fixture.executionsOf(of)).toEqual([]);
  });

  test("a retry that is postponed knows when it was due", async () => {
    const of = job();
    const first = await startedRun(fixture, of);
    const due = Date.now() + 1_000;
    await fixture.queue.close([retry(first, due)]);
    const second = await claimOne(fixture.queue, of);
    expect(second).toMatchObject({ attempt: 2, notBefore: due, retryAt: due });
    const later = due + HOUR / 2;
    await fixture.queue.release([second], later);
    const again = await claimOne(fixture.queue, of);
    expect(again).toMatchObject({ attempt: 2, notBefore: later, retryAt: due });
  });

  test("renewing keeps the given claims only, by their tokens", async () => {
    const [a, b] = [job(), job()];
    const mine = await claimed(fixture, a, { worker: "me" });
    const theirs = await claimed(fixture, b, { worker: "them" });
    await expireLease(fixture, mine);
    await expireLease(fixture, theirs);
    const stranger = { ...theirs, claimToken: mine.claimToken };
    expect(await fixture.queue.renew([mine, stranger], 30_000)).toEqual(renewed(mine));
    expect(await fixture.queue.reap()).toEqual({ requeued: 1, interrupted: 0 });
    expect(await fixture.queue.start([mine, theirs])).toEqual(new Set([mine.id]));
    await fixture.queue.close([success(mine)]);
  });

  test("a renewed lease counts from the renewal, and not from the end of the one before", async () => {
    const of = job();
    const run = await claimed(fixture, of, { leaseMs: 60_000 });
    expect(await fixture.queue.renew([run], -1)).toEqual(renewed(run));
    expect(await fixture.queue.reap()).toEqual({ requeued: 1, interrupted: 0 });
  });

  test("renewing works while every other connection is taken", async () => {
    const of = job();
    const run = await claimed(fixture, of, { worker: "busy" });
    const queue = fixture.anotherQueue(fixture.pool);
    const clients = await Promise.all(Array.from({ length: 10 }, () => fixture.pool.connect()));
    try {
      expect(await queue.renew([run], 30_000)).toEqual(renewed(run));
    } finally {
      for (const client of clients) client.release();
    }
  });

  test("a run whose row somebody has locked holds up no other lease, and its own is not lost", async () => {
    const [locked, other] = [job(), job()];
    const [mine, free] = [await claimed(fixture, locked), await claimed(fixture, other)];
    await fixture.queue.start([mine, free]);
    for (const each of [mine, free]) await expireLease(fixture, each);
    const administrator = await lockedRunsOf(fixture, locked);
    const partly = new Map([
      [mine.id, "locked"],
      [free.id, "renewed"],
    ]);
    expect(await fixture.queue.renew([mine, free], 20_000)).toEqual(partly);
    expect((await fixture.queue.reap()).interrupted).toBe(0);
    await administrator.rollback();
    expect(await fixture.queue.renew([mine, free], 20_000)).toEqual(renewed(mine, free));
    expect((await fixture.queue.reap()).interrupted).toBe(0);
    expect(await fixture.queue.close([success(mine), success(free)])).toEqual(
      new Set([mine.id, free.id]),
    );
  });

  test("a process that stands still in a transaction lets go before a lease is up", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.queue.renew([run], 20_000);
    const still = await fixture.pool.connect();
    let lost = 0;
    try {
      await still.query("begin");
      await still.query("select from runs where id = $1 for update", [run.id]);
      const renew = async () => {
        const answers = await fixture.queue.renew([run], 20_000);
        lost += (await fixture.queue.reap()).interrupted;
        return answers.get(run.id) === "renewed";
      };
      await until(() => `the end of the lock; ${lost} lost`, renew, 25_000);
    } finally {
      still.release(true);
    }
    expect(lost).toBe(0);
    await fixture.queue.close([success(run)]);
  });

  test("renewing works while the server has no connection for it, but for the runs", async () => {
    const of = job();
    const run = await claimed(fixture, of, { worker: "crowded out" });
    const crowded = await createLimitedRole(fixture.url, 0);
    const leasePool = createPool({
      url: crowded.url,
      applicationName: "test",
      lender: fixture.pool,
    });
    const queue = createRunQueue({
      pool: fixture.pool,
      leasePool,
      notifications: createNotifications({ url: fixture.url, applicationName: "test" }),
      random: () => 0.5,
    });
    try {
      expect(await queue.renew([run], 30_000)).toEqual(renewed(run));
    } finally {
      await leasePool.end();
      await crowded.drop();
    }
  });
});

/** The run was started an hour ago, and its worker died: its lease ran out 21 s later. */
async function heldFor21Seconds({ id }: ClaimedRun): Promise<void> {
  await fixture.pool.query(
    `update runs set started_at = date_trunc('second', now()) - interval '1 hour',
                     lease_until = date_trunc('second', now()) - interval '1 hour' + interval '21 s' where id = $1`,
    [id],
  );
}

describe("reap", () => {
  test("leaves living leases alone", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    expect(await fixture.queue.reap()).toEqual({ requeued: 0, interrupted: 0 });
    await fixture.queue.close([success(run)]);
  });

  test("a started run of a dead worker closes as interrupted, once, whoever reaps", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    const reaped = await Promise.all(
      [fixture.queue, fixture.anotherQueue(), fixture.anotherQueue()].map((queue) => queue.reap()),
    );
    expect(reaped.reduce((sum, one) => sum + one.interrupted, 0)).toBe(1);
    expect(await fixture.executionsOf(of)).toMatchObject([
      {
        status: "failed",
        httpStatus: 500,
        errorMessage: "interrupted: outcome unknown",
        attempt: 1,
      },
    ]);
    expect(await fixture.runsOf(of)).toEqual([]);
    // The worker was only asleep: its late record finds no run.
    expect(await fixture.queue.close([success(run)])).toEqual(new Set());
  });

  test("what a reaper has taken over is its own for a while, also while it is slow", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    const others: { interrupted: number }[] = [];
    const reaper = fixture.anotherQueue(
      aroundQueries(fixture.pool, async (ask, given) => {
        if (JSON.stringify(given).includes("close_runs")) others.push(await fixture.queue.reap());
        return ask();
      }),
    );
    expect((await reaper.reap()).interrupted).toBe(1);
    expect(others).toMatchObject([{ interrupted: 0 }]);
  });

  test.each([
    ["later", "11 s"],
    ["when the clock has stepped back", "-1 h"],
  ])("what a reaper has taken over and not closed is another's %s", async (_, age) => {
    const of = job();
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    const dying = fixture.anotherQueue(
      aroundQueries(fixture.pool, async (ask, given) => {
        if (JSON.stringify(given).includes("close_runs")) throw new Error("killed");
        return ask();
      }),
    );
    await expect(dying.reap()).rejects.toThrow("killed");
    expect((await fixture.queue.reap()).interrupted).toBe(0);
    const text = "update runs set claim_token = uuidv7(-$2::interval) where id = $1";
    await fixture.pool.query(text, [run.id, age]);
    expect((await fixture.queue.reap()).interrupted).toBe(1);
  });

  test("leaves those of which the caller will have the outcome, and no others", async () => {
    const [mine, dead] = [job(), job()];
    const [run, other] = [await startedRun(fixture, mine), await startedRun(fixture, dead)];
    for (const each of [run, other]) await expireLease(fixture, each);
    expect(await fixture.queue.reap({ except: [run.id] })).toEqual({ requeued: 0, interrupted: 1 });
    expect(await fixture.runsOf(dead)).toEqual([]);
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
  });

  test("what nobody has started is not interrupted, also when its row comes free under the reap", async () => {
    const of = job();
    const run = await claimed(fixture, of);
    await expireLease(fixture, run);
    const holder = await lockedRunsOf(fixture, of);
    const reaper = fixture.anotherQueue(
      aroundQueries(fixture.pool, async (ask, given) => {
        if (JSON.stringify(given).includes("claim_token = (select")) await holder.rollback();
        return ask();
      }),
    );
    expect(await reaper.reap()).toEqual({ requeued: 0, interrupted: 0 });
    expect(await fixture.executionsOf(of)).toEqual([]);
    expect((await fixture.queue.reap()).requeued).toBe(1);
  });

  test("is tried again when the job asked for retries", async () => {
    const retries = { maxRetries: 1, minBackoffSeconds: 10, maxBackoffSeconds: 10 };
    const of = job({ spec: spec({ retry: retries }) });
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    expect((await fixture.queue.reap()).interrupted).toBe(1);
    const again = await claimOne(fixture.queue, of);
    expect(again).toMatchObject({ id: run.id, attempt: 2 });
    expect(again.notBefore).toBeGreaterThan(Date.now() + 5_000);
    await fallDue(fixture, of);
    await fixture.queue.start([again]);
    await expireLease(fixture, run);
    await fixture.queue.reap();
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.executionsOf(of)).toHaveLength(2);
  });

  test("is tried again as its own generation says, and as long after it was found as that says", async () => {
    const retry = { maxRetries: 1, minBackoffSeconds: 10, maxBackoffSeconds: 10 };
    const of = job({ spec: spec({ retry }) });
    await fixture.apply(of);
    await fixture.apply({ ...of, generation: 2, spec: spec() });
    // The job store was restored.
    await fixture.apply(of, { create: [scheduled(Date.now() - HOUR)] });
    const run = await startOne(fixture.queue, of);
    await fixture.pool.query(
      `update runs set started_at = now() - interval '1 hour', lease_until = now() - interval '1 s'
        where id = $1`,
      [run.id],
    );
    const before = Date.now();
    expect((await fixture.queue.reap()).interrupted).toBe(1);
    const again = await claimOne(fixture.queue, of);
    expect(again).toMatchObject({ id: run.id, attempt: 2 });
    expect(again.notBefore).toBeGreaterThan(before + 9_000);
    await fixture.cancel([of]);
  });

  test("lasted until its worker's lease ran out, however late it is found", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await heldFor21Seconds(run);
    await fixture.queue.reap();
    expect(await fixture.executionsOf(of)).toMatchObject([{ durationMs: 21_000 }]);
  });

  test("lasted no time where a clock has stepped back to before its start", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    await fixture.pool.query(
      "update runs set started_at = started_at + interval '1 hour' where id = $1",
      [run.id],
    );
    await fixture.queue.reap();
    expect(await fixture.executionsOf(of)).toMatchObject([{ durationMs: 0 }]);
  });

  test("lasted no longer because somebody held its job when it was found", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await heldFor21Seconds(run);
    const holder = await openTransaction(
      fixture.pool,
      "select from job_cursors where job_uid = $1 for update",
      [of.uid],
    );
    expect((await fixture.queue.reap()).interrupted).toBe(0);
    expect(await fixture.runsOf(of)).toMatchObject([{ state: "started" }]);
    await holder.commit();
    expect((await fixture.queue.reap()).interrupted).toBe(1);
    expect(await fixture.executionsOf(of)).toMatchObject([{ durationMs: 21_000 }]);
  });

  test("is recorded as of its start, however late that was", async () => {
    const of = job();
    const before = Date.now() - 1_000;
    const run = await startedRun(fixture, of, { at: before - HOUR });
    await expireLease(fixture, run);
    await fixture.queue.reap();
    const [execution] = await fixture.executionsOf(of);
    expect(execution).toMatchObject({ scheduledAt: before - HOUR });
    expect(execution?.executedAt).toBeGreaterThan(before);
  });

  test("reads nothing of what they send: hundreds may have 256 KiB each", async () => {
    const large = spec();
    if (large.target.kind === "webhook") large.target.payload = JSON.stringify("x".repeat(200_000));
    const mail = spec({
      target: {
        kind: "email",
        to: "a@example.com",
        subject: "s",
        body: "x".repeat(200_000),
        isHtml: false,
      },
    });
    for (const of of [job({ spec: large }), job({ spec: mail })]) {
      const run = await startedRun(fixture, of);
      await expireLease(fixture, run);
    }
    const { pool, most } = measured(fixture.pool);
    expect((await fixture.anotherQueue(pool).reap()).interrupted).toBe(2);
    expect(most()).toBeLessThan(10_000);
  });

  test.each([
    {
      which: "whose spec only a newer release can read",
      harm: `update job_revisions set spec = jsonb_set(spec::jsonb, '{retry}', '"often"')::json`,
    },
    { which: "whose spec is gone", harm: "delete from job_revisions" },
  ])("one $which is closed too, and does not hold up the others", async ({ harm }) => {
    const [unreadable, known] = [job(), job()];
    for (const of of [unreadable, known]) {
      const run = await startedRun(fixture, of);
      await expireLease(fixture, run);
    }
    await fixture.pool.query(`${harm} where job_uid = $1`, [unreadable.uid]);
    expect((await fixture.queue.reap()).interrupted).toBe(2);
    expect(await fixture.runsOf(unreadable)).toEqual([]);
  });

  test("is tried again by retries that can be read, whatever else cannot", async () => {
    const retry = { maxRetries: 1, minBackoffSeconds: 10, maxBackoffSeconds: 10 };
    const of = job({ spec: spec({ retry }) });
    const run = await startedRun(fixture, of);
    await expireLease(fixture, run);
    await fixture.pool.query(
      `update job_revisions set spec = jsonb_set(spec::jsonb, '{target}', '{"kind": "sms"}')::json
        where job_uid = $1`,
      [of.uid],
    );
    expect((await fixture.queue.reap()).interrupted).toBe(1);
    expect(await fixture.runsOf(of)).toMatchObject([{ id: run.id, attempts: 1 }]);
    await fixture.cancel([of]);
  });

  test("one that was started a month ago does not hold up the others", async () => {
    const [old, recent] = [job(), job()];
    for (const of of [old, recent]) {
      const run = await startedRun(fixture, of);
      await expireLease(fixture, run);
    }
    await fixture.pool.query(
      "update runs set started_at = started_at - interval '25 days' where job_uid = $1",
      [old.uid],
    );
    expect((await fixture.queue.reap()).interrupted).toBe(2);
    expect(await fixture.executionsOf(old)).toMatchObject([{ durationMs: 2 ** 31 - 1 }]);
    expect((await fixture.executionsOf(old))[0]?.executedAt).toBeLessThan(
      Date.now() - 24 * 24 * HOUR,
    );
  });

  test("one whose outcome is refused does not hold up the others", async () => {
    const [bad, sound] = [job(), job()];
    const asleep = await claimed(fixture, bad);
    const dead = await claimed(fixture, sound);
    await fixture.queue.start([asleep, dead]);
    for (const each of [asleep, dead]) await expireLease(fixture, each);
    await fixture.pool.query(`alter table executions
      add constraint refused check (job_uid <> '${bad.uid}') not valid`);
    await expect(fixture.queue.reap()).rejects.toThrow("refused");
    expect(await fixture.runsOf(sound)).toEqual([]);
    await fixture.pool.query("alter table executions drop constraint refused");
    // It has been taken over all the same: its worker no longer holds it.
    expect(await fixture.queue.renew([asleep], 30_000)).toEqual(new Map());
    expect(await fixture.queue.close([success(asleep)])).toEqual(new Set());
    await fixture.pool.query("update runs set lease_until = now() - interval '1 s'");
    expect((await fixture.queue.reap()).interrupted).toBe(1);
  });

  test("a lock that comes under the closing is waited for once, and not for each of them", async () => {
    const [first, second] = [job(), job()];
    for (const of of [first, second]) {
      const run = await startedRun(fixture, of);
      await expireLease(fixture, run);
    }
    const { url } = fixture;
    const pool = createPool({ url, applicationName: "test", plans: "fixed", lockTimeoutMs: 100 });
    onTestFinished(() => pool.end());
    let closings = 0;
    let holder: OpenTransaction | undefined;
    const reaper = fixture.anotherQueue(
      aroundQueries(pool, async (ask, given) => {
        if (!JSON.stringify(given).includes("close_runs")) return ask();
        closings += 1;
        if (closings === 1) {
          const text = "select from job_cursors where job_uid = any($1) for update";
          holder = await openTransaction(fixture.pool, text, [[first.uid, second.uid]]);
        }
        return ask();
      }),
    );
    await expect(reaper.reap()).rejects.toThrow(LockHeld);
    expect(closings).toBe(1);
    await holder?.commit();
    expect((await reaper.reap()).interrupted).toBe(2);
  });

  test("a replaced run of a dead worker says so", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.pool.query("update runs set replaced = true where id = $1", [run.id]);
    await expireLease(fixture, run);
    await fixture.queue.reap();
    expect(await fixture.executionsOf(of)).toMatchObject([
      { errorMessage: "replaced: outcome unknown" },
    ]);
  });

  test("more leftovers than one batch", async () => {
    const jobs = Array.from({ length: 1_200 }, () => job());
    await fixture.ledger.apply(
      jobs.map((of) => change(of, { create: [scheduled(Date.now() - 1)] })),
    );
    const runs = await fixture.queue.claim({
      worker: "dead",
      limit: 1_200,
      until: Date.now(),
      leaseMs: 60_000,
    });
    await fixture.queue.start(runs.slice(0, 1_100));
    await fixture.pool.query(
      "update runs set lease_until = now() - interval '1 second' where worker = 'dead'",
    );
    expect(await fixture.queue.reap()).toEqual({ requeued: 100, interrupted: 1_100 });
  });
});

describe("history", () => {
  test("newest first over every incarnation, with missed spans on request", async () => {
    const first = job();
    const second = job({ account: first.account, id: first.id });
    for (const of of [first, second]) {
      const run = await startedRun(fixture, of);
      await fixture.queue.close([success(run)]);
      await fixture.apply(of, {
        missed: [{ first: Date.now() - HOUR, last: Date.now() + 5, count: 7, reason: "downtime" }],
      });
    }
    const query = { account: first.account ?? "", jobId: first.id };
    const executions = await fixture.history.executions({ ...query, limit: 10, offset: 0 });
    expect(executions.map((one) => one.jobUid)).toEqual([second.uid, first.uid]);
    const paged = await fixture.history.executions({ ...query, limit: 1, offset: 1 });
    expect(paged).toEqual(executions.slice(1));
    const failed = { ...query, limit: 10, offset: 0, status: "failed" as const };
    expect(await fixture.history.executions(failed)).toEqual([]);
    const all = await fixture.history.executionsAndMissed({ ...query, limit: 10, offset: 0 });
    expect(all.map((one) => one.kind).toSorted((a, b) => a.localeCompare(b))).toEqual([
      "execution",
      "execution",
      "missed",
      "missed",
    ]);
    expect(all.find((one) => one.kind === "missed")).toMatchObject({
      count: 7,
      reason: "downtime",
    });
    const moments = all.map((one) => (one.kind === "missed" ? one.last : one.executedAt));
    expect(moments).toEqual(moments.toSorted((a, b) => b - a));
    expect(await fixture.history.hasTrace(query.account, query.jobId)).toBe(true);
    expect(await fixture.history.hasTrace(query.account, "job-none")).toBe(false);
  });
});

describe("who is told of what was closed", () => {
  let told: Map<string, string[]>;
  let notifications: Notifications;

  beforeEach(async () => {
    told = new Map();
    notifications = createNotifications({ url: fixture.url, applicationName: "test" });
    for (const channel of [CLOSED_CHANNEL, CURSORS_CHANNEL]) {
      const listening = Promise.withResolvers<void>();
      const uids: string[] = [];
      told.set(channel, uids);
      notifications.on(channel, (payload) => {
        if (payload === undefined) listening.resolve();
        else uids.push(...payload.split(","));
      });
      await listening.promise;
    }
  });

  afterEach(() => notifications.close());

  test("each statement of a batch is told, also when a later one is refused", async () => {
    const [over, refused] = [job(), job()];
    const [first, second] = [await claimed(fixture, over), await claimed(fixture, refused)];
    await fixture.queue.start([first, second]);
    const later = retry(second, Date.now() + 3_600_000);
    const closing = fixture.queue.close([
      success(first),
      { ...later, execution: { ...later.execution, errorMessage: "PostgreSQL takes no \0" } },
    ]);
    await expect(closing).rejects.toThrow("invalid byte sequence");
    await expect.poll(() => told.get(CLOSED_CHANNEL)).toEqual([over.uid]);
    await fixture.queue.close([later]);
  });

  test("a closing whose answer was lost is told when it is repeated", async () => {
    let lost = false;
    const queue = fixture.anotherQueue(
      aroundQueries(fixture.pool, async (ask) => {
        const answer = await ask();
        if (lost) return answer;
        lost = true;
        throw new DependencyUnavailable("postgres");
      }),
    );
    const at = Date.now() - 1_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    const run = await startedRun(fixture, of, { at, once: "fired" });
    await expect(queue.close([success(run)])).rejects.toThrow(DependencyUnavailable);
    expect(await queue.close([success(run)])).toEqual(new Set());
    await expect
      .poll(() => told)
      .toEqual(
        new Map([
          [CLOSED_CHANNEL, [of.uid]],
          [CURSORS_CHANNEL, [of.uid]],
        ]),
      );
  });
});
