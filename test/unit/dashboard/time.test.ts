import { expect, test } from "vitest";
import { formatDuration, utcDay } from "../../../src/dashboard/src/time.ts";

test.each([
  { ms: 0, text: "0 ms" },
  { ms: 999, text: "999 ms" },
  { ms: 1_250, text: "1.3 s" },
  { ms: 59_900, text: "59.9 s" },
  { ms: 60_000, text: "1 min 0 s" },
  { ms: 90_000, text: "1 min 30 s" },
  { ms: 119_600, text: "2 min 0 s" },
])("$ms ms is $text", ({ ms, text }) => {
  expect(formatDuration(ms)).toBe(text);
});

test("a day that is counted in UTC says so", () => {
  expect(utcDay.format(new Date("2026-11-22T00:00:00Z"))).toBe("22 Nov, UTC");
});
