import { expect, test } from "vitest";
import {
  formatDuration,
  formatOffset,
  formatRelative,
  formatTime,
  timeZones,
  utcDay,
  utcOffset,
} from "../../../src/dashboard/src/time.ts";

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

test.each([
  { seconds: 0, text: "now" },
  { seconds: 4.9, text: "now" },
  { seconds: -4.9, text: "now" },
  { seconds: 5, text: "in 5 seconds" },
  { seconds: -119.9, text: "119 seconds ago" },
  { seconds: -120, text: "2 minutes ago" },
  { seconds: 7_199, text: "in 119 minutes" },
  { seconds: 7_200, text: "in 2 hours" },
  { seconds: -172_799, text: "47 hours ago" },
  { seconds: -172_800, text: "2 days ago" },
  { seconds: 864_000, text: "in 10 days" },
])("$seconds s from now is $text", ({ seconds, text }) => {
  const now = Date.parse("2026-11-22T12:00:00Z");
  expect(formatRelative(new Date(now + seconds * 1_000).toISOString(), now)).toBe(text);
});

test.each([
  { at: "2026-10-25T00:59:59Z", zone: "Europe/Berlin", text: "UTC+02:00" },
  { at: "2026-10-25T01:00:00Z", zone: "Europe/Berlin", text: "UTC+01:00" },
  { at: "2026-11-22T12:00:00Z", zone: "America/St_Johns", text: "UTC−03:30" },
  { at: "2026-11-22T12:00:00Z", zone: "Asia/Kathmandu", text: "UTC+05:45" },
  { at: "2026-11-22T12:00:00Z", zone: "UTC", text: "UTC+00:00" },
])("the clocks of $zone are at $text on $at", ({ at, zone, text }) => {
  expect(formatOffset(utcOffset(at, zone))).toBe(text);
});

test("a time is shown in its zone, with seconds and without", () => {
  const at = "2026-11-21T23:30:05Z";
  const shown = ["Asia/Tokyo", "America/New_York"].flatMap((zone) => [
    formatTime(at, zone),
    formatTime(at, zone, false),
  ]);
  expect(shown).toEqual([
    "Sun, 22 Nov 2026, 08:30:05",
    "Sun, 22 Nov 2026, 08:30",
    "Sat, 21 Nov 2026, 18:30:05",
    "Sat, 21 Nov 2026, 18:30",
  ]);
});

test("UTC comes first among the zones, and the present one is there however it is called", () => {
  const zones = timeZones("US/Eastern");
  for (const list of [zones, timeZones("UTC")]) {
    expect(list[0]).toBe("UTC");
    expect(list.filter((zone) => zone === "UTC")).toHaveLength(1);
  }
  expect(zones).toEqual(expect.arrayContaining(["US/Eastern", "Asia/Kolkata", "Europe/Kyiv"]));
});

test("a day that is counted in UTC says so", () => {
  expect(utcDay.format(new Date("2026-11-22T00:00:00Z"))).toBe("22 Nov, UTC");
});
