import { expect, test } from "vitest";
import type { Schedule } from "../../../src/domain/job.ts";
import { scheduleHash } from "../../../src/domain/schedule.ts";
import { timingOf } from "../../../src/domain/timing.ts";

const cron = (expression: string, timeZone: string): Schedule => ({
  kind: "cron",
  expression,
  timeZone,
});
const DAILY = cron("0 3 * * *", "UTC");

test("jobs with the same cron schedule share one timing", () => {
  const timing = timingOf({ schedule: DAILY, suspend: false });
  expect(timingOf({ schedule: { ...DAILY }, suspend: false })).toBe(timing);
});

test.each([
  { what: "another zone", spec: { schedule: cron("0 3 * * *", "Etc/UTC"), suspend: false } },
  { what: "another expression", spec: { schedule: cron("0 4 * * *", "UTC"), suspend: false } },
  {
    what: "the end in the other part",
    spec: { schedule: cron("0 3 * * *U", "TC"), suspend: false },
  },
  { what: "a pause", spec: { schedule: DAILY, suspend: true } },
])("with $what it is another one", ({ spec }) => {
  timingOf({ schedule: DAILY, suspend: false });
  expect(timingOf(spec).hash).toBe(scheduleHash(spec));
  expect(timingOf(spec).hash).not.toBe(timingOf({ schedule: DAILY, suspend: false }).hash);
});

test("a refused job does not spoil the timing of those with its schedule", () => {
  const refusal = { field: "webhook_url", message: "no" };
  expect(timingOf({ schedule: DAILY, suspend: false, refusal }).compiled.ok).toBe(false);
  expect(timingOf({ schedule: DAILY, suspend: false }).compiled.ok).toBe(true);
});

test.each([cron("0".repeat(257), "UTC"), cron("0 3 * * *", "U".repeat(65))])(
  "a schedule that is too long to be valid is not kept: there may be many, and large ones",
  (schedule) => {
    const timing = timingOf({ schedule, suspend: false });
    expect(timingOf({ schedule, suspend: false })).not.toBe(timing);
  },
);
