import { beforeAll, describe, expect, test } from "vitest";
import { MINUTE, SECOND } from "../../../src/domain/instant.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import {
  claimOne,
  cursorOf,
  decisionOf,
  failure,
  job,
  runsFixture,
  spec,
  startOne,
  type RunsFixture,
} from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

/** The last fire time. */
const latest = () => Math.floor(Date.now() / MINUTE) * MINUTE;

const decided = (of: Job, now: number, ahead = 0) => decisionOf(fixture.ledger, of, { now, ahead });

async function reconcile(of: Job, now: number, ahead = 0): Promise<void> {
  const change = await decided(of, now, ahead);
  expect(change).toBeDefined();
  expect(await fixture.ledger.apply(change ? [change] : [])).toMatchObject({ conflicts: [] });
  expect(await decided(of, now, ahead)).toBeUndefined();
}

const started = (of: Job) => startOne(fixture.queue, of);

/** A job whose first run, of this time, is under way. */
async function underWay(
  at: number,
  change: Partial<JobSpec> = {},
): Promise<{ of: Job; run: ClaimedRun }> {
  const of = job({
    createdAt: at - 1,
    spec: spec({
      schedule: { kind: "cron", expression: "* * * * *", timeZone: "UTC" },
      ...change,
    }),
  });
  await reconcile(of, at);
  return { of, run: await started(of) };
}

async function recorded(of: Job) {
  const { rows } = await fixture.pool.query<{ first: number; last: number; reason: string }>(
    `select first_at as first, last_at as last, reason from missed_spans
      where job_uid = $1 order by first_at`,
    [of.uid],
  );
  return rows;
}

/** A run of three minutes ago, which is answered 410 now. Nobody has scheduled since. */
async function halted(): Promise<{ of: Job; paused: object }> {
  const { of, run } = await underWay(latest() - 3 * MINUTE);
  await fixture.queue.close([failure(run, "halted")]);
  const { haltedAt } = await cursorOf(fixture.ledger, of);
  const last = Math.floor((haltedAt ?? 0) / MINUTE) * MINUTE;
  return { of, paused: { first: run.scheduledAt + MINUTE, last, reason: "paused" } };
}

describe("fire times that were due before a 410, and not decided", () => {
  test("are on record when the halt is taken up", async () => {
    const { of, paused } = await halted();
    await reconcile(of, Date.now() + 10 * MINUTE);
    expect(await recorded(of)).toEqual([paused]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: 1,
      haltedAt: null,
      startable: false,
    });
  });

  test("are when it is lifted before that, and what comes after is run", async () => {
    const { of, paused } = await halted();
    await fixture.ledger.liftHalt(of);
    const next = latest() + 2 * MINUTE;
    await reconcile(of, next - 1);
    await reconcile(of, next);
    expect(await recorded(of)).toEqual([paused]);
    expect((await fixture.runsOf(of)).map(({ scheduledAt }) => scheduledAt)).toEqual([next]);
    await fixture.cancel([of]);
  });

  test("are when the decision on one loses against the 410", async () => {
    const { of, run } = await underWay(latest() - MINUTE, { concurrencyPolicy: "Replace" });
    const at = run.scheduledAt + MINUTE;
    const next = await decided(of, at);
    expect(next?.create.map(({ scheduledAt }) => scheduledAt)).toEqual([at]);
    await fixture.queue.close([failure(run, "halted")]);
    expect(await fixture.ledger.apply(next ? [next] : [])).toMatchObject({ conflicts: [of.uid] });
    await reconcile(of, Date.now());
    expect(await recorded(of)).toMatchObject([{ first: at, reason: "paused" }]);
  });
});

test("runs behind a halt go when it is taken up: on record when due, without trace when prepared", async () => {
  const at = latest();
  const { of, run } = await underWay(at - MINUTE);
  await reconcile(of, at + MINUTE - 10 * SECOND, 15 * SECOND);
  expect(await fixture.runsOf(of)).toHaveLength(3);
  await fixture.queue.close([failure(run, "halted")]);
  await reconcile(of, at + MINUTE - 5 * SECOND);
  expect(await fixture.runsOf(of)).toEqual([]);
  expect(await recorded(of)).toEqual([{ first: at, last: at, reason: "paused" }]);
  await fixture.ledger.liftHalt(of);
  await reconcile(of, at + MINUTE - 4 * SECOND, 15 * SECOND);
  expect((await fixture.runsOf(of)).map(({ scheduledAt }) => scheduledAt)).toEqual([at + MINUTE]);
  await fixture.cancel([of]);
});

test("no run starts after the 410 has been recorded, although nobody has taken the halt up", async () => {
  const at = latest();
  const { of, run } = await underWay(at - MINUTE);
  await reconcile(of, at);
  const behind = await claimOne(fixture.queue, of);
  await fixture.queue.close([failure(run, "halted")]);
  expect(await fixture.queue.start([behind])).toEqual(new Set());
  expect(await fixture.runsOf(of)).toEqual([]);
  expect(await recorded(of)).toEqual([{ first: at, last: at, reason: "paused" }]);
});

test("a one-time that is halted before its time, by a run asked for by hand, runs once the halt is lifted", async () => {
  const at = Date.now() + MINUTE;
  const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
  await reconcile(of, at - 20 * SECOND);
  await fixture.ledger.runNow(of, "by hand");
  const run = await started(of);
  await reconcile(of, at - 10 * SECOND, 15 * SECOND);
  await fixture.queue.close([failure(run, "halted")]);
  await reconcile(of, at - 5 * SECOND, 15 * SECOND);
  expect(await decided(of, at + 30 * SECOND)).toBeUndefined();
  expect(await fixture.runsOf(of)).toEqual([]);
  expect(await recorded(of)).toEqual([]);
  await fixture.ledger.liftHalt(of);
  await reconcile(of, at + 40 * SECOND);
  expect((await fixture.runsOf(of)).map(({ scheduledAt }) => scheduledAt)).toEqual([at]);
  await fixture.cancel([of]);
});

describe("a 410 that stops nothing tells of no time", () => {
  test("a second one, of another run: the time of the first stays", async () => {
    const at = latest();
    const { of, run: first } = await underWay(at - MINUTE);
    await reconcile(of, at);
    const second = await started(of);
    await fixture.queue.close([failure(first, "halted")]);
    const { haltedAt } = await cursorOf(fixture.ledger, of);
    await fixture.queue.close([failure(second, "halted")]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({ haltedAt });
    await reconcile(of, Date.now());
    await fixture.ledger.runNow(of, "by hand");
    await fixture.queue.close([failure(await started(of), "halted")]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: 1,
      haltedAt: null,
    });
  });

  test("to a paused job's manual run: what passes while it is paused is not missed", async () => {
    const { of: active, run } = await underWay(latest() - 3 * MINUTE);
    await fixture.queue.close([failure(run)]);
    const of = { ...active, generation: 2, spec: { ...active.spec, suspend: true } };
    await reconcile(of, run.scheduledAt + 1);
    await fixture.ledger.runNow(of, "by hand");
    await fixture.queue.close([failure(await started(of), "halted")]);
    expect(await cursorOf(fixture.ledger, of)).toMatchObject({
      haltedGeneration: 2,
      haltedAt: null,
    });
    expect(await decided(of, Date.now())).toBeUndefined();
  });
});
