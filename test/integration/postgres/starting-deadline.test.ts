import { beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { onceSpec } from "../../conformance/job-store.ts";
import {
  claimed,
  claimOne,
  cursorOf,
  decisionOf,
  job,
  retry,
  runsFixture,
  spec,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

const missedOf = async (of: Job) =>
  (
    await fixture.pool.query<{ reason: string; count: number; first_at: number }>(
      "select reason, count, first_at from missed_spans where job_uid = $1",
      [of.uid],
    )
  ).rows;

/** As if the run had been created ten seconds before its time, and no worker had run since. */
async function prepared(of: Job, at: number, once: "armed" | "fired" = "armed") {
  const run = await claimed(fixture, of, { at, once });
  await fixture.queue.release([run]);
  await fixture.pool.query(
    "update runs set created_at = scheduled_at - interval '10 seconds' where id = $1",
    [run.id],
  );
  return claimOne(fixture.queue, of);
}

async function starts(run: ClaimedRun): Promise<boolean> {
  const started = await fixture.queue.start([run]);
  await fixture.queue.close([success(run)]);
  return started.has(run.id);
}

const late = (startingDeadlineSeconds: number | null) =>
  job({ spec: spec({ startingDeadlineSeconds }) });

describe("a prepared run whose time passed while nobody was there", () => {
  test("beyond the starting deadline it does not start, and is missed", async () => {
    const [of, at] = [late(30), Date.now() - 60_000];
    const before = fixture.pastDeadline;
    expect(await starts(await prepared(of, at))).toBe(false);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(await missedOf(of)).toEqual([{ reason: "deadline", count: 1, first_at: at }]);
    expect(fixture.pastDeadline - before).toBe(1);
  });

  test("a one-time's is decided again: missed", async () => {
    const at = Date.now() - 60_000;
    const of = job({
      createdAt: at - 60_000,
      spec: onceSpec(at, { startingDeadlineSeconds: 30 }),
    });
    const before = fixture.pastDeadline;
    expect(await starts(await prepared(of, at, "fired"))).toBe(false);
    expect(await fixture.runsOf(of)).toEqual([]);
    expect(fixture.pastDeadline).toBe(before);
    expect((await cursorOf(fixture.ledger, of)).once).toBe("armed");
    expect(await decisionOf(fixture.ledger, of)).toMatchObject({
      create: [],
      missed: [{ first: at, reason: "deadline" }],
      to: { once: "missed" },
    });
    expect(await missedOf(of)).toEqual([]);
  });

  test("within the deadline, or without one, it starts", async () => {
    expect(await starts(await prepared(late(600), Date.now() - 60_000))).toBe(true);
    expect(await starts(await prepared(late(null), Date.now() - 60_000))).toBe(true);
  });
});

describe("the starting deadline has been looked at", () => {
  test("of a run that was created late", async () => {
    expect(await starts(await claimed(fixture, late(30), { at: Date.now() - 60_000 }))).toBe(true);
  });

  test("of one that was asked for by hand", async () => {
    const of = late(30);
    await fixture.apply(of);
    await fixture.ledger.runNow(of, "k");
    expect(await starts(await claimOne(fixture.queue, of))).toBe(true);
  });

  test("of one that was asked for by annotation, also by a leader whose clock is ahead", async () => {
    const of = late(30);
    const scheduledAt = Date.now() - 60_000;
    await fixture.apply(of, { create: [{ trigger: "manual", key: "k", scheduledAt }] });
    await fixture.pool.query(
      "update runs set created_at = scheduled_at - interval '1 millisecond' where job_uid = $1",
      [of.uid],
    );
    expect(await starts(await claimOne(fixture.queue, of))).toBe(true);
  });

  test("of one that an open circuit held up, or that is tried again", async () => {
    const held = late(30);
    await fixture.queue.release([await prepared(held, Date.now() - 60_000)], Date.now() - 1_000);
    expect(await starts(await claimOne(fixture.queue, held))).toBe(true);

    const again = late(600);
    const first = await prepared(again, Date.now() - 60_000);
    await fixture.queue.start([first]);
    await fixture.queue.close([retry(first, Date.now() - 1_000)]);
    const second = await claimOne(fixture.queue, again);
    expect(await starts({ ...second, spec: { ...second.spec, startingDeadlineSeconds: 30 } })).toBe(
      true,
    );
  });
});
