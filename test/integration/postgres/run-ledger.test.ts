import { randomBytes, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { destinationKey } from "../../../src/domain/destination.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import { HOUR, MINUTE, SECOND } from "../../../src/domain/instant.ts";
import { ContentRefused } from "../../../src/domain/ports/content-refused.ts";
import { VersionConflict } from "../../../src/domain/ports/job-store.ts";
import { closeRuns } from "../../../src/postgres/close-runs.ts";
import { DROPPED_AT_ONCE, MOVED_AT_ONCE } from "../../../src/postgres/drop-runs.ts";
import { createLedgerNews, notifyJobs } from "../../../src/postgres/job-notifications.ts";
import { liftHalt } from "../../../src/postgres/lift-halt.ts";
import { lockedJobs } from "../../../src/postgres/locked-runs.ts";
import { createNotifications, CURSORS_CHANNEL } from "../../../src/postgres/notifications.ts";
import { createRunHistory } from "../../../src/postgres/run-history.ts";
import { startRuns } from "../../../src/postgres/start-runs.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { UNREADABLE } from "../../../src/domain/stored-spec.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction, type OpenTransaction } from "../../postgres/open-transaction.ts";
import { until } from "../../until.ts";
import {
  change,
  claimed,
  claimOne,
  cursorOf,
  decisionOf,
  fallDue,
  job,
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
import { unfinishedRuns } from "../../postgres/unfinished-runs.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

/** Runs of the job, as many, that wait to be claimed. */
async function waiting(
  of: Job,
  count: number,
  trigger: "manual" | "schedule" = "manual",
): Promise<void> {
  const destination = destinationKey(of.account ?? "", of.spec.target);
  await fixture.pool.query(
    `insert into runs
       (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
     select $1::uuid, $2::uuid, $3, 1, $6, key, now(), now(), $4 from generate_series(1, $5::int) as key`,
    [of.uid, of.account, of.id, destination, count, trigger],
  );
}

/** Random, because an index would compress a text of one letter. */
const incompressible = (length: number) => randomBytes(length / 2).toString("hex");

describe("apply", () => {
  test("two ledgers with the same change create each run once", async () => {
    const now = Date.now();
    const jobs = Array.from({ length: 200 }, () => job());
    const changes = jobs.map((of) => change(of, { create: [scheduled(now), scheduled(now - 1)] }));
    const ledgers = [fixture.anotherLedger(), fixture.anotherLedger(), fixture.anotherLedger()];
    for (let round = 0; round < 3; round += 1) {
      const cursors = await fixture.ledger.cursors(jobs.map((of) => of.uid));
      const again = changes.map((one) => ({
        ...one,
        from: cursors.get(one.job.uid),
        create: [scheduled(now + round * 10), scheduled(now + round * 10 + 1)],
      }));
      const results = await Promise.all(
        ledgers.map((ledger, i) => ledger.apply(i % 2 === 0 ? again : again.toReversed())),
      );
      const created = results.reduce((sum, result) => sum + result.created, 0);
      const conflicts = results.reduce((sum, result) => sum + result.conflicts.length, 0);
      expect({ round, created, conflicts }).toEqual({ round, created: 400, conflicts: 400 });
    }
    const { rows } = await fixture.pool.query<{ n: number }>(
      "select count(*) as n from runs where job_uid = any($1::uuid[])",
      [jobs.map((of) => of.uid)],
    );
    expect(rows[0]?.n).toBe(1200);
    await fixture.cancel(jobs);
  });

  test("a lost compare-and-set changes nothing of that job and all of the others", async () => {
    const [a, b] = [job(), job()];
    await fixture.ledger.apply([change(a), change(b)]);
    const stale = await cursorOf(fixture.ledger, a);
    await fixture.ledger.apply([change(a, { from: stale, to: { position: 1_000 } })]);
    const result = await fixture.ledger.apply([
      change(a, {
        from: stale,
        create: [scheduled(5)],
        missed: [{ first: 1, last: 1, count: 1, reason: "downtime" }],
      }),
      change(b, { from: await cursorOf(fixture.ledger, b), create: [scheduled(5)] }),
    ]);
    expect(result).toEqual({ conflicts: [a.uid], created: 1 });
    expect(await fixture.runsOf(a)).toEqual([]);
    expect(await fixture.missedOf(a)).toEqual([]);
    expect((await cursorOf(fixture.ledger, a)).position).toBe(1_000);
    await fixture.cancel([a, b]);
  });

  const dropped = [
    { why: "superseded", edit: { generation: 2 }, to: { generation: 2 }, reason: "superseded" },
    { why: "paused", edit: {}, to: { startable: false }, reason: "paused" },
    { why: "deleted", edit: {}, to: { deleted: true, startable: false }, reason: "deleted" },
  ] as const;
  for (const { why, edit, to, reason } of dropped)
    test(`${why}: unstarted runs go, recorded when due, without trace when prepared`, async () => {
      const of = job();
      const now = Date.now();
      await fixture.apply(of, {
        create: [scheduled(now - 2_000), scheduled(now - 1_000), scheduled(now + 20_000)],
      });
      await fixture.apply({ ...of, ...edit }, { to: { position: now, ...to } });
      expect(await fixture.runsOf(of)).toEqual([]);
      expect(await fixture.missedOf(of)).toEqual([{ reason, count: 2 }]);
    });

  test("a started run outlives an edit", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.apply({ ...of, generation: 2 }, { to: { generation: 2 } });
    expect((await fixture.runsOf(of)).map((left) => left.state)).toEqual(["started"]);
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
  });

  test("a fire time that is taken back and created anew leaves one run and no missed span", async () => {
    const at = Date.now() - 1_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    await fixture.apply(of, { create: [scheduled(at)], to: { once: "fired" } });
    await fixture.apply(
      { ...of, generation: 2 },
      { create: [scheduled(at)], to: { once: "fired", generation: 2 } },
    );
    expect((await fixture.runsOf(of)).map((run) => run.generation)).toEqual([2]);
    expect(await fixture.missedOf(of)).toEqual([]);
    await fixture.cancel([of]);
  });

  test("a prepared run that fell due while an edit was decided is created anew, not missed", async () => {
    const of = job();
    const at = Date.now() - 50;
    await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
    await fixture.apply(
      { ...of, generation: 2 },
      { create: [scheduled(at)], to: { generation: 2, position: at } },
    );
    expect((await fixture.runsOf(of)).map((run) => run.generation)).toEqual([2]);
    expect(await fixture.missedOf(of)).toEqual([]);
    await fixture.cancel([of]);
  });

  test("a prepared run that fell due, and that the edit leaves to be decided again, is not missed", async () => {
    const of = job();
    const at = Date.now() - 50;
    await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
    await fixture.apply({ ...of, generation: 2 }, { to: { position: at - 1 } });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("a fire time that is still to come is not missed, whatever was decided of it", async () => {
    const at = Date.now() + 10_000;
    const of = job();
    await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
    // As the lifting of a halt writes it: the position stays.
    const to = { startable: false, position: at };
    await fixture.apply(of, { to });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  const fromAClockAhead = [
    { edit: "of the same schedule: nobody decides it again", to: {}, recorded: ["superseded"] },
    { edit: "to another schedule: it had not come", to: { scheduleHash: "other" }, recorded: [] },
  ];
  for (const { edit, to, recorded } of fromAClockAhead)
    test(`decided by a clock that PostgreSQL's has stepped back from, an edit ${edit}`, async () => {
      const at = Date.now() + 10_000;
      const of = job();
      await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
      const edited = { ...of, generation: 2 };
      await fixture.apply(edited, { to: { position: at + 1, ...to } });
      expect(await fixture.runsOf(of)).toEqual([]);
      expect((await fixture.missedOf(of)).map(({ reason }) => reason)).toEqual(recorded);
    });

  test("a run that was delivered while an edit was decided is not created a second time", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const from = await cursorOf(fixture.ledger, of);
    const edit = change(
      { ...of, generation: 2 },
      { from, create: [scheduled(run.scheduledAt)], to: { generation: 2 } },
    );
    await fixture.queue.close([success(run)]);
    expect(await fixture.ledger.apply([edit])).toEqual({ conflicts: [], created: 0 });
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  for (const change of ["an edit", "a pause and a resume"])
    test(`none that ran before the clock stepped back is created again, where ${change} sets the job back to now`, async () => {
      const first = Math.floor(Date.now() / MINUTE) * MINUTE - 5 * MINUTE;
      const times = [0, 1, 2].map((n) => first + n * MINUTE);
      const schedule = { kind: "cron", expression: "* * * * *", timeZone: "UTC" } as const;
      let of = job({ createdAt: first - SECOND, spec: spec({ schedule }) });
      const reconcile = async (now: number) => {
        const decided = await decisionOf(fixture.ledger, of, { now, ahead: 15 * SECOND });
        if (decided) await fixture.ledger.apply([decided]);
        if ((await fixture.runsOf(of)).length === 0) return;
        await fallDue(fixture, of);
        const run = await startOne(fixture.queue, of);
        await fixture.queue.close([success(run)]);
      };
      const executed = async () =>
        (await fixture.executionsOf(of)).map(({ scheduledAt }) => scheduledAt).toReversed();
      for (const time of times) await reconcile(time);
      expect(await executed()).toEqual(times);

      const edit = async (to: Partial<JobSpec>) => {
        of = { ...of, generation: of.generation + 1, spec: { ...of.spec, ...to } };
        await reconcile(first - 10 * SECOND);
      };
      if (change === "an edit") await edit({ name: "Edited" });
      else for (const suspend of [true, false]) await edit({ suspend });
      for (const time of [...times, first + 3 * MINUTE]) await reconcile(time);
      expect(await executed()).toEqual([...times, first + 3 * MINUTE]);
    });

  test("a run whose closing commits while the edit is being applied is not created a second time", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const from = await cursorOf(fixture.ledger, of);
    const edit = change(
      { ...of, generation: 2 },
      { from, create: [scheduled(run.scheduledAt)], to: { generation: 2 } },
    );
    const closing = await openTransaction(fixture.pool);
    await closeRuns(closing.client, [success(run)], () => undefined);
    const applying = fixture.anotherLedger().apply([edit]);
    await untilLockWaits(fixture.pool);
    await closing.commit();
    expect(await applying).toEqual({ conflicts: [], created: 0 });
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  for (const becomes of ["is under way", "has been delivered"])
    test(`a fire time that an edit leaves to be decided again is decided when its run ${becomes}`, async () => {
      const of = job();
      const at = Date.now() - 50;
      await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
      const run = await claimOne(fixture.queue, of);
      const from = await cursorOf(fixture.ledger, of);
      // Decided a moment before its time, applied a moment after its start.
      const to = { generation: 2, position: at - 1 };
      expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
      if (becomes === "has been delivered") await fixture.queue.close([success(run)]);
      await fixture.ledger.apply([change({ ...of, generation: 2 }, { from, to })]);
      expect(await cursorOf(fixture.ledger, of)).toMatchObject({
        position: at,
        version: from.version + 2,
      });
      if (becomes === "is under way") await fixture.queue.close([success(run)]);
      expect(await fixture.missedOf(of)).toEqual([]);
    });

  test("one that was started long before the edit changes nothing of where it sets the cursor", async () => {
    const of = job();
    const now = Date.now();
    const run = await startedRun(fixture, of, { at: now - 60_000 });
    const to = { generation: 2, position: now - 50 };
    await fixture.apply({ ...of, generation: 2 }, { to });
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ position: now - 50, version: 2 });
    await fixture.queue.close([success(run)]);
  });

  for (const becomes of ["is under way", "has been delivered"])
    test(`an edit sets a cron back to now that a wrong clock took hours ahead, where its run ${becomes}`, async () => {
      const of = job();
      const now = Date.now();
      const at = now + 5 * HOUR;
      await fixture.apply(of, { create: [scheduled(at)], to: { position: at } });
      await fallDue(fixture, of);
      const run = await startOne(fixture.queue, of);
      if (becomes === "has been delivered") await fixture.queue.close([success(run)]);
      const from = await cursorOf(fixture.ledger, of);
      const edit = { from, create: [scheduled(now)], to: { generation: 2, position: now } };
      const result = await fixture.ledger.apply([change({ ...of, generation: 2 }, edit)]);
      expect(result).toEqual({ conflicts: [], created: 1 });
      expect(await cursorOf(fixture.ledger, of)).toMatchObject({ position: now });
      if (becomes === "is under way") await fixture.queue.close([success(run)]);
      await fixture.cancel([of]);
    });

  test("a run by hand that is under way hides no fire time that an edit leaves to be decided again", async () => {
    const of = job();
    const now = Date.now();
    await fixture.apply(of, { to: { position: now + 10_000 } });
    await fixture.ledger.runNow(of, "k");
    const run = await startOne(fixture.queue, of);
    const position = run.scheduledAt - 50;
    await fixture.apply({ ...of, generation: 2 }, { to: { generation: 2, position } });
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ position, version: 2 });
    await fixture.queue.close([success(run)]);
  });

  test("a one-time that becomes a cron while its run starts hides no fire time before that run", async () => {
    const at = Date.now() + 10_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    await fixture.apply(of, { create: [scheduled(at)], to: { once: "fired", position: at } });
    const from = await cursorOf(fixture.ledger, of);
    await fallDue(fixture, of);
    const run = await startOne(fixture.queue, of);
    const cron = { ...of, generation: 2, spec: spec() };
    const to = { generation: 2, scheduleHash: "other", position: at - 9_000 };
    await fixture.ledger.apply([change(cron, { from, to })]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ position: at - 9_000, version: 2 });
    await fixture.queue.close([success(run)]);
  });

  test("a manual run moves to the new generation, and a claim on the old one is void", async () => {
    const of = job();
    await fixture.apply(of);
    expect(await fixture.ledger.runNow(of, "k")).toBe(true);
    const old = await claimOne(fixture.queue, of);
    const target = { kind: "email", to: "a@b.c", subject: "s", body: "", isHtml: false } as const;
    const edited = { ...of, generation: 2, spec: spec({ name: "Edited", suspend: true, target }) };
    await fixture.apply(edited, { to: { generation: 2, startable: false } });
    expect(await fixture.queue.start([old])).toEqual(new Set());
    const run = await claimOne(fixture.queue, of);
    expect(run).toMatchObject({ generation: 2, trigger: "manual", spec: { name: "Edited" } });
    expect(run.destination).toBe(`${of.account} smtp`);
    expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
    await fixture.queue.close([success(run)]);
  });

  test("a change moves some of the job's manual runs, however many wait, and the others move at their start", async () => {
    const of = job();
    await fixture.apply(of);
    await waiting(of, MOVED_AT_ONCE + 1);
    await fixture.apply({ ...of, generation: 2 });
    const left = async () =>
      (await fixture.runsOf(of)).filter(({ generation }) => generation === 1);
    expect(await left()).toHaveLength(1);
    const runs = await fixture.queue.claim({
      worker: "w",
      limit: 2 * MOVED_AT_ONCE,
      until: Date.now(),
      leaseMs: 9_000,
    });
    const started = await fixture.queue.start(runs);
    expect(started.size).toBe(MOVED_AT_ONCE);
    expect(await left()).toEqual([]);
    const [run] = await fixture.queue.claim({
      worker: "w",
      limit: 2,
      until: Date.now(),
      leaseMs: 9_000,
    });
    expect(run).toMatchObject({ generation: 2, jobUid: of.uid });
    await fixture.queue.close(runs.filter(({ id }) => started.has(id)).map((one) => success(one)));
    await fixture.cancel([of]);
  });

  test("to move a run at its start nothing is read of what the job sends now: hundreds may have 256 KiB each", async () => {
    const of = job();
    await fixture.ledger.apply([change(of)]);
    await fixture.ledger.runNow(of, "k");
    const old = await claimOne(fixture.queue, of);
    const large = spec();
    if (large.target.kind === "webhook") {
      large.target.url = "https://elsewhere.example.com/hook";
      large.target.payload = JSON.stringify("x".repeat(200_000));
    }
    // As behind more than the change itself has moved.
    await fixture.pool.query("insert into job_revisions values ($1, 2, $2)", [of.uid, large]);
    await fixture.pool.query("update job_cursors set generation = 2 where job_uid = $1", [of.uid]);
    const { pool, most } = measured(fixture.pool);
    expect(await fixture.anotherQueue(pool).start([old])).toEqual(new Set());
    expect(most()).toBeLessThan(10_000);
    const run = await claimOne(fixture.queue, of);
    expect(run).toMatchObject({ generation: 2, spec: large });
    expect(run.destination).toBe(destinationKey(of.account ?? "", large.target));
    await fixture.cancel([of]);
  });

  test("a run whose job has a spec that only a newer release can read holds up no other's start", async () => {
    const [newer, known] = [job(), job()];
    const runs: ClaimedRun[] = [];
    for (const of of [newer, known]) {
      await fixture.ledger.apply([change(of)]);
      await fixture.ledger.runNow(of, "k");
      runs.push(await claimOne(fixture.queue, of));
    }
    const { target: _target, ...rest } = spec();
    await fixture.pool.query("insert into job_revisions values ($1, 2, $2)", [
      newer.uid,
      { ...rest, targets: [] },
    ]);
    await fixture.pool.query("update job_cursors set generation = 2 where job_uid = $1", [
      newer.uid,
    ]);
    expect(await fixture.queue.start(runs)).toEqual(new Set([runs[1]?.id]));
    expect(await claimOne(fixture.queue, newer)).toMatchObject({
      generation: 2,
      spec: { refusal: UNREADABLE },
    });
    await fixture.cancel([newer, known]);
  });

  test("workers hear at once of what is created, asked for or moved, and when it may start at the earliest", async () => {
    const heard: (number | null)[] = [];
    const told = (count: number) => until("told", () => heard.length >= count);
    const off = fixture.anotherQueue().onWake((since) => void heard.push(since));
    await told(1);
    const [of, other] = [job(), job()];
    const later = Date.now() + 60_000;
    await fixture.ledger.apply([
      change(of),
      change(other, { create: [scheduled(later + 1_000), scheduled(later)] }),
    ]);
    await told(2);
    await fixture.ledger.runNow(of, "k");
    await told(3);
    await fixture.apply({ ...of, generation: 2 });
    await told(4);
    const [run] = await fixture.runsOf(of);
    expect(heard).toEqual([null, later, run?.scheduledAt, run?.scheduledAt]);
    off();
    await fixture.cancel([of, other]);
  });

  test("a manual run of a job without an account is missed, whatever the position", async () => {
    const of = job();
    await fixture.apply(of);
    expect(await fixture.ledger.runNow(of, "k")).toBe(true);
    const to = { position: Date.now() - 60_000, startable: false };
    await fixture.apply({ ...of, account: null }, { to });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([{ reason: "account_deleted", count: 1 }]);
  });

  test("a manual run between attempts, which must all send the same, ends with its generation", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "k");
    const run = await startOne(fixture.queue, of);
    await fixture.queue.close([retry(run, Date.now())]);
    await fixture.apply({ ...of, generation: 2 });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("a manual run between attempts ends where a restored job store gave its generation's number to another spec", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "k");
    await fixture.queue.close([retry(await startOne(fixture.queue, of), Date.now() - 1)]);
    await fixture.apply({ ...of, spec: spec({ name: "another" }) });
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  test("a one-time whose retries an edit ends has failed", async () => {
    const at = Date.now() - 1_000;
    const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
    const run = await startedRun(fixture, of, { at, once: "fired" });
    await fixture.queue.close([retry(run, Date.now() + 60_000)]);
    await fixture.apply({ ...of, generation: 2 }, { to: { generation: 2, once: "fired" } });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect((await cursorOf(fixture.ledger, of)).once).toBe("failed");
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("replace marks started runs and drops the others", async () => {
    const of = job({ spec: spec({ concurrencyPolicy: "Replace" }) });
    const started = await startedRun(fixture, of);
    const now = Date.now();
    await fixture.apply(of, { create: [scheduled(now - 500)] });
    const older = await fixture.runsOf(of);
    await fixture.apply(of, {
      create: [scheduled(now)],
      replace: older.map((run) => run.id),
    });
    expect(await fixture.queue.unwanted([started.id])).toEqual(new Map([[started.id, "replaced"]]));
    const left = await fixture.runsOf(of);
    expect(left.map((run) => [run.state, run.scheduledAt])).toEqual([
      ["started", started.scheduledAt],
      ["queued", now],
    ]);
    expect(await fixture.missedOf(of)).toEqual([{ reason: "overlap", count: 1 }]);
    await fixture.queue.close([success(started)]);
    await fixture.cancel([of]);
  });

  test("what is replaced between attempts has its execution, and is not missed", async () => {
    const of = job({ spec: spec({ concurrencyPolicy: "Replace" }) });
    const run = await startedRun(fixture, of);
    await fixture.queue.close([retry(run, Date.now() + 60_000)]);
    await fixture.apply(of, { replace: [run.id] });
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("what PostgreSQL cannot hold is refused by name, and nothing beside it is written", async () => {
    const sound = job();
    const bad = [
      change(job({ id: "\0" })),
      change(job(), { to: { position: Date.UTC(-1, 0) } }),
      change(job(), {
        create: [{ trigger: "manual", key: incompressible(3_000), scheduledAt: Date.now() }],
      }),
    ];
    for (const each of bad)
      await expect(fixture.ledger.apply([change(sound), each])).rejects.toThrow(ContentRefused);
    expect((await fixture.ledger.cursors([sound.uid])).size).toBe(0);
  });

  test("a prepared run of a generation that a restored backup does not have gives way", async () => {
    const at = Date.now() + 10_000;
    const ahead = job({ generation: 5 });
    await fixture.apply(ahead, {
      create: [scheduled(at), { trigger: "manual", key: "k", scheduledAt: at - 10_000 }],
      to: { position: at },
    });
    const back = { ...ahead, generation: 3 };
    await fixture.apply(back, { create: [scheduled(at)], to: { position: at } });
    const runs = await fixture.runsOf(back);
    expect(new Set(runs.map(({ trigger, generation }) => `${trigger} ${generation}`))).toEqual(
      new Set(["manual 3", "schedule 3"]),
    );
    expect(await fixture.missedOf(back)).toEqual([]);
    await fixture.cancel([back]);
  });

  test("a restored backup's edit takes the place of the revision with its number", async () => {
    const of = job();
    await fixture.apply(of);
    const cursor = await cursorOf(fixture.ledger, of);
    await fixture.ledger.apply([change({ ...of, generation: 2 }, { from: cursor })]);
    const ahead = await cursorOf(fixture.ledger, of);
    await fixture.ledger.apply([change(of, { from: ahead })]);
    const back = await cursorOf(fixture.ledger, of);
    const edited = { ...of, generation: 2, spec: spec({ name: "edited" }) };
    const now = Date.now();
    await fixture.ledger.apply([change(edited, { from: back, create: [scheduled(now)] })]);
    const run = await claimOne(fixture.queue, edited);
    await fixture.queue.close([success(run)]);
    expect(run.spec.name).toBe("edited");
  });

  test("a run sends what its own generation says, also behind a backup that took a newer one back", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.apply({ ...of, generation: 2, spec: spec({ name: "taken back" }) });
    await fixture.apply(of, { create: [scheduled(Date.now() - 1)] });
    const run = await startOne(fixture.queue, of);
    await fixture.queue.close([success(run)]);
    expect(run).toMatchObject({ generation: 1, spec: of.spec });
  });

  test("a run sends the spec that came to have a number which was another's", async () => {
    const [of, due] = [job(), Date.now()];
    await fixture.apply(of, { create: [scheduled(due)] });
    const held = await claimOne(fixture.queue, of);
    const second = { ...of, spec: spec({ name: "second" }) };
    await fixture.apply(second, { create: [scheduled(due)] });
    expect(await fixture.queue.start([held])).toEqual(new Set());
    const run = await claimOne(fixture.queue, second);
    await fixture.queue.close([success(run)]);
    expect([held.spec.name, run.spec.name]).toEqual([of.spec.name, "second"]);
  });

  test("a run of the same spec, which another release stored in other words, is tried again", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.pool.query(
      `update job_revisions set spec = (spec::jsonb || '{"older": true}')::json where job_uid = $1`,
      [of.uid],
    );
    await fixture.pool.query("update job_cursors set revision = null where job_uid = $1", [of.uid]);
    await fixture.apply(of);
    await fixture.queue.close([retry(run, Date.now() - 1)]);
    const again = await startOne(fixture.queue, of);
    expect(again).toMatchObject({ id: run.id, attempt: 2, generation: 1, spec: of.spec });
    await fixture.queue.close([success(again)]);
  });

  test("10,000 new runs in one change set", async () => {
    const now = Date.now();
    const jobs = Array.from({ length: 10_000 }, () => job());
    await fixture.ledger.apply(jobs.map((of) => change(of)));
    const cursors = await fixture.ledger.cursors(jobs.map((of) => of.uid));
    const begun = performance.now();
    const result = await fixture.ledger.apply(
      jobs.map((of) => change(of, { from: cursors.get(of.uid), create: [scheduled(now)] })),
    );
    const ms = performance.now() - begun;
    expect(result).toEqual({ conflicts: [], created: 10_000 });
    console.log(`apply of 10,000 runs: ${Math.round(ms)} ms`);
    const claiming = performance.now();
    const runs = await fixture.queue.claim({
      worker: "w",
      limit: 1_000,
      until: now,
      leaseMs: 30_000,
    });
    const starting = performance.now();
    const ids = await fixture.queue.start(runs);
    const closing = performance.now();
    const closed = await fixture.queue.close(runs.map((run) => success(run)));
    const end = performance.now();
    expect([runs.length, ids.size, closed.size]).toEqual([1_000, 1_000, 1_000]);
    console.log(
      `1,000 runs: claim ${Math.round(starting - claiming)} ms, start ${Math.round(closing - starting)} ms, close ${Math.round(end - closing)} ms`,
    );
    await fixture.cancel(jobs);
  });
});

describe("cancel, orphans, runNow", () => {
  test("cancel is final, also against a leader that never saw a cursor", async () => {
    const of = job();
    await fixture.cancel([of]);
    await fixture.cancel([of]);
    const result = await fixture.ledger.apply([change(of, { create: [scheduled(Date.now())] })]);
    expect(result).toEqual({ conflicts: [of.uid], created: 0 });
    expect((await cursorOf(fixture.ledger, of)).deleted).toBe(true);
  });

  test.each([
    {
      what: "that was due",
      inMs: -1_000,
      suspend: false,
      missed: [{ reason: "deleted", count: 1 }],
    },
    { what: "that was due, and suspended", inMs: -1_000, suspend: true, missed: [] },
    { what: "that is still to come", inMs: 60_000, suspend: false, missed: [] },
  ])(
    "a one-time $what and that no leader has seen leaves a trace",
    async ({ missed, ...given }) => {
      const { inMs, suspend } = given;
      const of = job();
      of.spec = { ...of.spec, suspend, schedule: { kind: "once", at: Date.now() + inMs } };
      await fixture.cancel([of]);
      await fixture.cancel([of]);
      expect(await createRunHistory({ pool: fixture.pool }).hasTrace(of.account ?? "", of.id)).toBe(
        true,
      );
      expect(await fixture.missedOf(of)).toEqual(missed);
    },
  );

  test("a one-time that no database could be given is deleted as any other, and so is what is deleted with it", async () => {
    const of = job();
    // As of a resource with 9999-12-31T23:59:59-12:00.
    const at = Date.UTC(10_000, 0, 1, 11, 59, 59);
    of.spec = { ...of.spec, schedule: { kind: "once", at } };
    const other = job({ account: of.account });
    const account = of.account ?? "";
    await Promise.all([of, other].map((each) => fixture.ledger.cancel([each], account)));
    for (const each of [of, other])
      expect((await cursorOf(fixture.ledger, each)).deleted).toBe(true);
    expect(await fixture.missedOf(of)).toEqual([]);
  });

  test("however many jobs an account deletes at a time, and whatever holds them up, others go on", async () => {
    const jobs = Array.from({ length: 10 }, () => job());
    await fixture.ledger.apply(jobs.map((of) => change(of)));
    const ledger = fixture.anotherLedger();
    const uids = jobs.map((of) => of.uid);
    const holder = await openTransaction(
      fixture.pool,
      "select from job_cursors where job_uid = any($1) for update",
      [uids],
    );
    const cancelled = Promise.all(jobs.map((of) => ledger.cancel([of], "one account")));
    const other = job();
    await ledger.cancel([other], "another");
    expect((await cursorOf(ledger, other)).deleted).toBe(true);
    await holder.rollback();
    await cancelled;
    const cursors = await ledger.cursors(uids);
    expect(uids.map((uid) => cursors.get(uid)?.deleted)).toEqual(uids.map(() => true));
  });

  test("a cancelled job's started run is told to stop", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    await fixture.cancel([of]);
    expect(await fixture.queue.unwanted([run.id])).toEqual(new Map([[run.id, "deleted"]]));
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
  });

  test("a started run of a deleted account is told to stop", async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    expect(await fixture.queue.unwanted([run.id])).toEqual(new Map());
    await fixture.pool.query(
      "insert into accounts (id, name, deleted_at) values ($1::uuid, $1::text, now())",
      [of.account],
    );
    expect(await fixture.queue.unwanted([run.id])).toEqual(new Map([[run.id, "deleted"]]));
    await fixture.queue.close([success(run)]);
  });

  test.each([
    { of: "manual", by: "a deletion" },
    { of: "schedule", by: "a deletion" },
    { of: "schedule", by: "a pause" },
  ] as const)(
    "of many runs ($of) some are dropped by each statement of $by, until none is left",
    async ({ of: trigger, by }) => {
      const of = job();
      await fixture.apply(of);
      await waiting(of, DROPPED_AT_ONCE + 1, trigger);
      if (by === "a deletion") await fixture.cancel([of]);
      else await fixture.apply(of, { to: { startable: false } });
      expect(await fixture.runsOf(of)).toEqual([]);
      // One for each statement.
      const counts = (await fixture.missedOf(of)).map(({ count }) => count);
      expect(counts.toSorted((a, b) => a - b)).toEqual([1, DROPPED_AT_ONCE]);
    },
  );

  test("the leader, which has other work, cancels some of many runs at a time", async () => {
    const [of, another] = [job(), job()];
    await fixture.ledger.apply([change(of), change(another)]);
    await waiting(of, DROPPED_AT_ONCE + 1);
    const uids = [of.uid, another.uid];
    expect(await fixture.ledger.cancelSome(uids)).toBe(false);
    const [left, ...more] = await fixture.runsOf(of);
    expect(more).toEqual([]);
    // What is left does not start.
    const [run] = await fixture.queue.claim({
      worker: "w",
      limit: 2,
      until: Date.now(),
      leaseMs: 9_000,
    });
    expect(run?.id).toBe(left?.id);
    expect(await fixture.queue.start(run ? [run] : [])).toEqual(new Set());
    expect(await fixture.ledger.cancelSome(uids)).toBe(true);
    expect(await fixture.ledger.cancelSome(uids)).toBe(true);
    expect((await fixture.missedOf(of)).reduce((sum, { count }) => sum + count, 0)).toBe(
      DROPPED_AT_ONCE + 1,
    );
  });

  test("start and cancel at once: either it started first, or it never starts", async () => {
    const jobs = Array.from({ length: 50 }, () => job());
    await fixture.ledger.apply(
      jobs.map((of) => change(of, { create: [scheduled(Date.now() - 1)] })),
    );
    const runs = await fixture.queue.claim({
      worker: "w",
      limit: 50,
      until: Date.now(),
      leaseMs: 9_000,
    });
    const [started] = await Promise.all([
      fixture.queue.start(runs),
      fixture.anotherLedger().cancel(jobs, "an account"),
    ]);
    const left = await unfinishedRuns(fixture.pool, ...jobs.map((of) => of.uid));
    expect(left.every((run) => run.state === "started")).toBe(true);
    expect(new Set(left.map((run) => run.id))).toEqual(started);
    await fixture.queue.close(runs.map((run) => success(run)));
  });

  test("a start that commits while the job is cancelled is not lost", async () => {
    const of = job();
    const run = await claimed(fixture, of);
    const starting = await openTransaction(fixture.pool);
    expect(await startRuns(starting.client, [run])).toEqual(new Set([run.id]));
    const cancelling = fixture.anotherLedger().cancel([of], "an account");
    await untilLockWaits(fixture.pool);
    await starting.commit();
    await cancelling;
    expect((await fixture.runsOf(of)).map(({ state }) => state)).toEqual(["started"]);
    expect(await fixture.missedOf(of)).toEqual([]);
    expect(await fixture.queue.close([success(run)])).toEqual(new Set([run.id]));
  });

  test("orphans are cursors that the store no longer has", async () => {
    const [kept, lost, gone] = [job(), job(), job()];
    await fixture.ledger.apply([change(kept), change(lost), change(gone)]);
    await fixture.cancel([gone]);
    const orphans = await fixture.ledger.orphans(new Set([kept.uid]));
    expect(orphans).toContain(lost.uid);
    expect(orphans).not.toContain(kept.uid);
    expect(orphans).not.toContain(gone.uid);
  });

  test("a manual run is due at once, wherever in its millisecond it is asked for", async () => {
    for (let n = 0; n < 50; n += 1) {
      const of = job();
      await fixture.apply(of);
      await fixture.ledger.runNow(of, "k");
      const run = await claimOne(fixture.queue, of);
      expect(await fixture.queue.start([run])).toEqual(new Set([run.id]));
      await fixture.queue.close([success(run)]);
    }
  });

  test("the same request is one manual run, also after it ran", async () => {
    const of = job();
    await fixture.apply(of, { to: { startable: false } });
    const answers = await Promise.all([1, 2, 3].map(() => fixture.ledger.runNow(of, "key-1")));
    expect(answers).toEqual([true, true, true]);
    const run = await startOne(fixture.queue, of);
    await fixture.queue.close([success(run)]);
    expect(await fixture.ledger.runNow(of, "key-1")).toBe(true);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await fixture.ledger.runNow(of, "key-2")).toBe(true);
    expect(await fixture.runsOf(of)).toHaveLength(1);
    await fixture.cancel([of]);
    expect(await fixture.ledger.runNow(of, "key-3")).toBe(false);
    expect(await fixture.ledger.runNow(job(), "key")).toBe(false);
  });

  test("a manual run that the leader creates under the key of one that is over is no second run", async () => {
    const of = job();
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "k");
    await fixture.queue.close([success(await startOne(fixture.queue, of))]);
    const create = [{ trigger: "manual", key: "k", scheduledAt: Date.now() - 1 } as const];
    expect(await fixture.apply(of, { create })).toEqual({ conflicts: [], created: 0 });
    expect(await fixture.runsOf(of)).toEqual([]);
  });

  test("a request behind an edit, or another account of the job, waits until that is taken up", async () => {
    const of = job();
    await fixture.apply(of);
    const newer = { ...of, generation: 2, spec: spec({ name: "edited" }) };
    expect(await fixture.ledger.runNow(newer, "key")).toBe(false);
    expect(await fixture.ledger.runNow({ ...of, account: job().account }, "key")).toBe(false);
    expect(await fixture.runsOf(of)).toEqual([]);
    await fixture.apply(newer);
    expect(await fixture.ledger.runNow(newer, "key")).toBe(true);
    const run = await claimOne(fixture.queue, of);
    await fixture.queue.close([success(run)]);
    expect(run.spec.name).toBe("edited");
  });

  test("a request that an edit overtakes is to be made again: its run would count to where the job called before", async () => {
    const of = job();
    await fixture.apply(of);
    const elsewhere = { ...spec().target, url: "https://elsewhere.example/" } as JobSpec["target"];
    const newer = { ...of, generation: 2, spec: spec({ target: elsewhere }) };
    const holder = await openTransaction(
      fixture.pool,
      "select from job_cursors where job_uid = $1 for update",
      [of.uid],
    );
    const edited = fixture.apply(newer);
    await untilLockWaits(fixture.pool);
    const asked = fixture.ledger.runNow(of, "key");
    await untilLockWaits(fixture.pool, 2);
    await holder.commit();
    await edited;
    expect(await asked).toBe(false);
    expect(await fixture.ledger.runNow(newer, "key")).toBe(true);
    const run = await claimOne(fixture.queue, of);
    await fixture.queue.close([success(run)]);
    expect(run).toMatchObject({
      generation: 2,
      destination: destinationKey(run.account, newer.spec.target),
    });
  });

  test("a request that comes while the job is being deleted makes no run", async () => {
    const of = job();
    await fixture.apply(of);
    const deleting = await openTransaction(
      fixture.pool,
      "update job_cursors set deleted_at = now() where job_uid = $1",
      [of.uid],
    );
    const asked = fixture.ledger.runNow(of, "late");
    // Until it waits for the cursor, or has been answered.
    await Promise.race([asked, untilLockWaits(fixture.pool)]);
    await deleting.commit();
    expect(await asked).toBe(false);
    expect(await fixture.runsOf(of)).toEqual([]);
  });
});

/** By the weakest lock, for which changes have to wait as well. */
function hold(table: "job_cursors" | "runs", of: Job): Promise<OpenTransaction> {
  const text = `select from ${table} where job_uid = $1 for key share`;
  return openTransaction(fixture.pool, text, [of.uid]);
}

describe("a look for jobs that somebody has locked", () => {
  test("names those whose cursor is held, or a run that a change may have to wait for", async () => {
    const [cursor, queued, started, byHand] = [job(), job(), job(), job()];
    const [startedByHand, free, unknown] = [job(), job(), job()];
    for (const of of [cursor, queued, byHand, startedByHand, free]) await fixture.apply(of);
    await startedRun(fixture, started);
    await waiting(startedByHand, 1);
    await startOne(fixture.queue, startedByHand);
    for (const of of [cursor, queued, free]) await waiting(of, 2, "schedule");
    for (const of of [cursor, byHand, free]) await waiting(of, 2);
    const holders = [await hold("job_cursors", cursor)];
    for (const of of [queued, started, byHand, startedByHand]) holders.push(await hold("runs", of));
    const asked = [cursor, queued, started, byHand, startedByHand, free, unknown];
    expect(await fixture.ledger.locked(asked.map(({ uid }) => uid))).toEqual(
      new Set([cursor, queued, started, byHand].map(({ uid }) => uid)),
    );
    for (const holder of holders) await holder.rollback();
    await fixture.cancel(asked);
  });

  test("keeps workers from no more runs than a statement drops, and from none where the cursor is held", async () => {
    const [many, held] = [job(), job()];
    for (const of of [many, held]) await fixture.apply(of);
    await waiting(many, DROPPED_AT_ONCE + 1);
    await waiting(held, 2, "schedule");
    const holder = await hold("job_cursors", held);
    const looking = await openTransaction(fixture.pool);
    expect(await lockedJobs(looking.client, [many.uid, held.uid])).toEqual(new Set([held.uid]));
    const { rows } = await fixture.pool.query<{ job_uid: string }>(
      "select job_uid from runs where job_uid = any($1) for update skip locked",
      [[many.uid, held.uid]],
    );
    await looking.rollback();
    await holder.rollback();
    const uids = rows.map(({ job_uid }) => job_uid);
    expect(uids.toSorted()).toEqual([many.uid, held.uid, held.uid].toSorted());
    await fixture.cancel([many, held]);
  });
});

/** Lifts a halt while others write the cursor so many times, each time between its read and its write. */
async function lift(of: Job, others: number): Promise<void> {
  const { pool, ledger } = fixture;
  await ledger.apply([change(of, { to: { haltedGeneration: 1, startable: false } })]);
  let left = others;
  await liftHalt({
    job: of,
    ledger: {
      cursors: (uids) => ledger.cursors(uids),
      apply: async (changes) => {
        if (left > 0)
          await pool.query("update job_cursors set version = version + 1 where job_uid = $1", [
            of.uid,
          ]);
        left -= 1;
        return ledger.apply(changes);
      },
    },
  });
}

describe("a halt that is lifted while others write the cursor", () => {
  test("is read again", async () => {
    const of = job();
    await lift(of, 4);
    expect((await cursorOf(fixture.ledger, of)).haltedGeneration).toBeNull();
  });

  test("stays when they go on", async () => {
    const of = job();
    await expect(lift(of, 5)).rejects.toThrow(VersionConflict);
    expect((await cursorOf(fixture.ledger, of)).haltedGeneration).toBe(1);
  });
});

test("the leader hears of a halt that is lifted also where the answer to that is lost", async () => {
  const { pool, ledger, url } = fixture;
  const heard: string[] = [];
  const notifications = createNotifications({ url, applicationName: "leader" });
  await new Promise<void>((listening) => {
    createLedgerNews({ notifications }).onCursors((uids) => {
      if (uids === undefined) listening();
      else heard.push(...uids);
    });
  });
  const of = job();
  await ledger.apply([change(of, { to: { haltedGeneration: 1, startable: false } })]);
  const lost = new Error("Connection terminated");
  const losing: Pick<typeof ledger, "apply" | "cursors"> = {
    cursors: (uids) => ledger.cursors(uids),
    apply: async (changes) => {
      await ledger.apply(changes);
      throw lost;
    },
  };
  await expect(liftHalt({ ledger: losing, job: of })).rejects.toThrow(lost);
  // Whoever asked for it asks again, and there is no halt any more.
  await ledger.liftHalt(of);
  const marker = randomUUID();
  await notifyJobs(pool, CURSORS_CHANNEL, [marker]);
  await until("what came before it has come", () => heard.includes(marker));
  expect(heard).toEqual([of.uid, marker]);
  await notifications.close();
});
