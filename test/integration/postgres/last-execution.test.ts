import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { HOUR } from "../../../src/domain/instant.ts";
import type { Job } from "../../../src/domain/job.ts";
import type { Closing } from "../../../src/domain/ports/run-queue.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import {
  asLast,
  change,
  cursorOf,
  failure,
  job,
  retry,
  runsFixture,
  scheduled,
  spec,
  startedRun,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
});
// Other tests would claim the runs that a test leaves.
beforeEach(() => fixture.pool.query("delete from runs"));
afterAll(async () => {
  await fixture?.close();
});

const lastOf = async ({ uid }: Job) => (await fixture.history.summary([uid])).get(uid);

/** Creates, claims and starts runs of these fire times, in this order. */
async function startedAt(of: Job, times: readonly number[]): Promise<ClaimedRun[]> {
  await fixture.apply(of, { create: times.map(scheduled) });
  const until = Math.max(...times);
  const request = { worker: "w", limit: times.length, until, leaseMs: 9_000 };
  const runs = await fixture.queue.claim(request);
  expect(runs.map(({ scheduledAt }) => scheduledAt)).toEqual(times.toSorted((a, b) => a - b));
  await fixture.queue.start(runs);
  return runs;
}

/** Closes a run while somebody else writes the cursor, for which the closing waits. */
async function closedWhile(
  of: Job,
  closing: Closing,
  text: string,
  values: unknown[],
): Promise<void> {
  const other = await openTransaction(fixture.pool, text, [of.uid, ...values]);
  const closed = fixture.queue.close([closing]);
  await untilLockWaits(fixture.pool);
  await other.commit();
  expect(await closed).toEqual(new Set([closing.run.id]));
}

test("an older outcome that comes late does not hide a newer one", async () => {
  const of = job();
  const now = Date.now();
  const [oldest, older, newer] = await startedAt(of, [now - 3_000, now - 2_000, now]);
  if (oldest === undefined || older === undefined || newer === undefined)
    throw new Error("not claimed");
  await fixture.queue.close([success(older, now + 1)]);
  await fixture.queue.close([failure(newer)]);
  await fixture.queue.close([success(oldest, now - 1_000)]);
  const summary = await lastOf(of);
  expect(summary).toMatchObject({ lastScheduleTime: now, lastSuccessTime: now + 1 });
  expect(summary?.last?.runId).toBe(newer.id);
});

test("of outcomes at once the last is remembered, and the latest success and fire time", async () => {
  const of = job();
  const now = Date.now();
  const runs = await startedAt(of, [now - 3_000, now - 2_000, now - 1_000]);
  const [first, second, third] = runs;
  if (first === undefined || second === undefined || third === undefined) throw new Error("three");
  const failed = { ...failure(second) };
  failed.execution = { ...failed.execution, executedAt: now + 2 };
  await fixture.queue.close([success(first, now + 1), failed, success(third, now)]);
  const last = await lastOf(of);
  expect(last).toMatchObject({ lastScheduleTime: now - 1_000, lastSuccessTime: now + 1 });
  const [execution] = await fixture.executionsOf(of);
  expect(last?.last).toEqual(asLast(execution));
  expect(execution).toMatchObject({ runId: second.id, errorMessage: "no", executedAt: now + 2 });
});

test("of outcomes of one moment the one that was written last is remembered", async () => {
  const of = job();
  const now = Date.now();
  const runs = await startedAt(of, [now - 3_000, now - 2_000, now - 1_000]);
  const [first, ...others] = runs.toSorted((a, b) => (a.id < b.id ? 1 : -1));
  if (first === undefined) throw new Error("three");
  await fixture.queue.close([success(first, now)]);
  expect((await lastOf(of))?.last?.runId).toBe(first.id);
  await fixture.queue.close(others.map((run) => success(run, now)));
  const [newest] = await fixture.executionsOf(of);
  expect((await lastOf(of))?.last).toEqual(asLast(newest));
  expect(newest?.runId).not.toBe(first.id);
});

test("an attempt that is followed by another is remembered", async () => {
  const of = job();
  const run = await startedRun(fixture, of);
  await fixture.queue.close([retry(run, Date.now() + HOUR)]);
  const [execution] = await fixture.executionsOf(of);
  expect(await lastOf(of)).toEqual({
    lastScheduleTime: run.scheduledAt,
    lastSuccessTime: null,
    last: asLast(execution),
  });
  expect(execution).toMatchObject({ status: "failed", attempt: 1 });
});

for (const { what, close } of [
  { what: "ends", close: (run: ClaimedRun) => success(run) },
  { what: "is tried again", close: (run: ClaimedRun) => retry(run, Date.now() + HOUR) },
])
  test(`the leader, who knows a cursor, need not look again because a cron job's run ${what}`, async () => {
    const of = job();
    const run = await startedRun(fixture, of);
    const from = await cursorOf(fixture.ledger, of);
    await fixture.queue.close([close(run)]);
    expect(await cursorOf(fixture.ledger, of)).toEqual(from);
    expect((await fixture.ledger.apply([change(of, { from })])).conflicts).toEqual([]);
    expect((await lastOf(of))?.last?.runId).toBe(run.id);
  });

test("a last execution that is written meanwhile counts, and so does what the leader writes", async () => {
  const of = job();
  const now = Date.now();
  const run = await startedRun(fixture, of);
  await closedWhile(
    of,
    success(run, now),
    `update job_cursors
        set version = version + 1, startable = false, last_execution_id = uuidv7(), last_run_id = uuidv7(),
            last_status = 'failed', last_executed_at = $2, last_schedule_time = $3
      where job_uid = $1`,
    [new Date(now + 5), new Date(now + 5)],
  );
  expect(await lastOf(of)).toMatchObject({
    lastScheduleTime: now + 5,
    lastSuccessTime: now,
    last: { status: "failed", executedAt: now + 5 },
  });
  expect(await cursorOf(fixture.ledger, of)).toMatchObject({ version: 2, startable: false });
});

test("a one-time whose cursor moves meanwhile is judged again, with its last execution", async () => {
  const at = Date.now() - 1_000;
  const of = job({ spec: spec({ schedule: { kind: "once", at } }) });
  const run = await startedRun(fixture, of, { at, once: "fired" });
  const move = "update job_cursors set version = version + 1, once = 'armed' where job_uid = $1";
  await closedWhile(of, success(run), move, []);
  expect(await cursorOf(fixture.ledger, of)).toMatchObject({ version: 2, once: "armed" });
  const [execution, ...others] = await fixture.executionsOf(of);
  expect(others).toEqual([]);
  expect((await lastOf(of))?.last).toEqual(asLast(execution));
});

test("of a job that has been forgotten, the attempt is recorded", async () => {
  const of = job();
  const run = await startedRun(fixture, of);
  await fixture.pool.query("delete from job_cursors where job_uid = $1", [of.uid]);
  expect(await fixture.queue.close([failure(run, "halted")])).toEqual(new Set([run.id]));
  expect(await fixture.executionsOf(of)).toHaveLength(1);
  expect((await lastOf(of))?.last).toBeNull();
});

test("no index knows what a closing writes: the new version of the row stays on its page", async () => {
  const { rows } = await fixture.pool.query<{ name: string; known: string }>(
    `select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as known
       from pg_index i where i.indrelid = 'job_cursors'::regclass`,
  );
  expect(rows.length).toBeGreaterThan(1);
  const written = /\b(?:version|once|startable|halted_\w+|last_\w+)\b/;
  expect(rows.filter(({ known }) => written.test(known))).toEqual([]);
});
