import { expect, test } from "vitest";
import { everyMs, withShortCrons } from "../../compressed-time/short-crons.ts";
import { compileSchedule } from "../../../src/domain/schedule.ts";

const compile = withShortCrons(compileSchedule);

test("fire times are the multiples of the period", () => {
  const result = compile(everyMs(100));
  if (!result.ok) throw new Error("not compiled");
  const { schedule } = result;
  expect([0, 99, 100].map((after) => schedule.next(after))).toEqual([100, 100, 200]);
  expect(schedule.latest(250, 0)).toBe(200);
  expect(schedule.latest(200, 199)).toBe(200);
  expect(schedule.latest(250, 200)).toBeNull();
  expect(schedule.count(0, 300)).toBe(3);
  expect(schedule.count(100, 199)).toBe(0);
  expect(schedule.count(99, 100)).toBe(1);
});

test("everything else is as the product has it", () => {
  const hourly = { kind: "cron", expression: "0 * * * *", timeZone: "UTC" } as const;
  expect(compile(hourly)).toBe(compileSchedule(hourly));
  expect(compile({ ...hourly, expression: "@every 1h" }).ok).toBe(false);
  expect(compileSchedule(everyMs(100)).ok).toBe(false);
});
