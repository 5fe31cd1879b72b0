import { describe, expect, test } from "vitest";
import type { Schedule } from "../../../src/domain/job.ts";
import {
  compileSchedule,
  parseRunAt,
  scheduleHash,
  type CompiledSchedule,
} from "../../../src/domain/schedule.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

describe("compileSchedule", () => {
  test("a bad expression is a finding for cron_expression", () => {
    expect(
      compileSchedule({ kind: "cron", expression: "0 0 30 2 *", timeZone: "UTC" }),
    ).toMatchObject({
      ok: false,
      finding: {
        field: "cron_expression",
        message: expect.stringContaining("never occurs") as string,
      },
    });
  });

  test("a bad zone is a finding for timezone", () => {
    expect(
      compileSchedule({ kind: "cron", expression: "0 0 * * *", timeZone: "+02:00" }),
    ).toMatchObject({ ok: false, finding: { field: "timezone" } });
  });

  test("jobs of the same schedule share its compilation; other zones do not", () => {
    const paris = compile({ kind: "cron", expression: "0 3 * * *", timeZone: "Europe/Paris" });
    const again = compile({ kind: "cron", expression: "0 3 * * *", timeZone: "Europe/Paris" });
    const utc = compile({ kind: "cron", expression: "0 3 * * *", timeZone: "UTC" });
    expect(again).toBe(paris);
    expect(utc.next(NOW)).not.toBe(paris.next(NOW));
  });

  test("a line break in one part is no other schedule's key", () => {
    compile({ kind: "cron", expression: "0 3 * * *", timeZone: "UTC" });
    expect(
      compileSchedule({ kind: "cron", expression: "0 3 * * *\nUTC", timeZone: "" }),
    ).toMatchObject({ ok: false });
  });

  test.each([
    "0000-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999Z",
    // Some hours later it is the year 10000 in the east.
    "9999-12-31T00:00:00.001Z",
    "9999-12-31T23:59:59-23:00",
  ])("%s is no time of a job", (text) => {
    expect(compileSchedule({ kind: "once", at: Date.parse(text) })).toMatchObject({
      ok: false,
      finding: { field: "run_at" },
    });
  });

  test.each(["1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z"])("%s is one", (text) => {
    expect(compileSchedule({ kind: "once", at: Date.parse(text) })).toMatchObject({ ok: true });
  });

  test("a one-time schedule has one fire time", () => {
    const once = compile({ kind: "once", at: NOW });
    expect(once.next(NOW - 1)).toBe(NOW);
    expect(once.next(NOW)).toBeNull();
    expect(once.latest(NOW, NOW - 1)).toBe(NOW);
    expect(once.latest(NOW - 1, 0)).toBeNull();
    expect(once.latest(NOW + 1, NOW)).toBeNull();
    expect(once.count(NOW - 1, NOW)).toBe(1);
    expect(once.count(NOW, NOW + 1)).toBe(0);
  });
});

describe("scheduleHash", () => {
  const base = {
    schedule: { kind: "cron", expression: "0 3 * * *", timeZone: "UTC" },
    suspend: false,
  } as const;

  test("is the same for the same schedule, and stays what databases already hold", () => {
    expect(scheduleHash({ ...base })).toBe("cdbad6d9b9ab6c47d95b5cdc7c656ff7");
    expect(scheduleHash({ schedule: { kind: "once", at: NOW }, suspend: true })).toBe(
      "cea942bfffee5e5561bb09b0784ef62c",
    );
  });

  test.each([
    { name: "expression", spec: { ...base, schedule: { ...base.schedule, expression: "@daily" } } },
    {
      name: "zone",
      spec: { ...base, schedule: { ...base.schedule, timeZone: "Europe/Paris" } },
    },
    { name: "suspension", spec: { ...base, suspend: true } },
    { name: "kind", spec: { ...base, schedule: { kind: "once", at: NOW } as const } },
  ])("changes with the $name", ({ spec }) => {
    expect(scheduleHash(spec)).not.toBe(scheduleHash(base));
  });
});

describe("parseRunAt accepts", () => {
  test.each([
    { name: "UTC", text: "2026-12-01T09:00:00Z", is: "2026-12-01T09:00:00.000Z" },
    { name: "lower case", text: "2026-12-01t09:00:00z", is: "2026-12-01T09:00:00.000Z" },
    { name: "east of UTC", text: "2026-12-01T09:00:00+05:45", is: "2026-12-01T03:15:00.000Z" },
    { name: "west of UTC", text: "2026-12-01T09:00:00-03:30", is: "2026-12-01T12:30:00.000Z" },
    { name: "offset -00:00", text: "2026-12-01T09:00:00-00:00", is: "2026-12-01T09:00:00.000Z" },
    { name: "milliseconds", text: "2026-12-01T09:00:00.250Z", is: "2026-12-01T09:00:00.250Z" },
    { name: "one digit", text: "2026-12-01T09:00:00.5Z", is: "2026-12-01T09:00:00.500Z" },
    {
      name: "nanoseconds, rounded up",
      text: "2026-12-01T09:00:00.250000001Z",
      is: "2026-12-01T09:00:00.251Z",
    },
    {
      name: "finer than that, rounded up",
      text: "2026-12-01T09:00:00.250000000000001Z",
      is: "2026-12-01T09:00:00.251Z",
    },
    {
      name: "zeros, nothing to round up",
      text: "2026-12-01T09:00:00.069000000000Z",
      is: "2026-12-01T09:00:00.069Z",
    },
    {
      name: "rounded up into the next second",
      text: "2026-12-01T09:00:00.9999Z",
      is: "2026-12-01T09:00:01.000Z",
    },
    { name: "a leap day", text: "2028-02-29T00:00:00Z", is: "2028-02-29T00:00:00.000Z" },
    {
      name: "half an hour ahead, written east of UTC",
      text: "2026-11-21T13:30:00+01:00",
      is: "2026-11-21T12:30:00.000Z",
    },
    { name: "five seconds ago", text: "2026-11-21T11:59:55Z", is: "2026-11-21T11:59:55.000Z" },
    { name: "ten years ahead", text: "2036-11-21T12:00:00Z", is: "2036-11-21T12:00:00.000Z" },
  ])("$name", ({ text, is }) => {
    const at = parseRunAt(text, NOW);
    expect(typeof at === "number" ? new Date(at).toISOString() : at).toBe(is);
  });
});

describe("parseRunAt refuses", () => {
  test.each([
    { name: "empty", text: "", says: "RFC 3339" },
    { name: "no offset", text: "2026-12-01T09:00:00", says: "with an offset" },
    { name: "a date alone", text: "2026-12-01", says: "RFC 3339" },
    { name: "a space for T", text: "2026-12-01 09:00:00Z", says: "RFC 3339" },
    { name: "no seconds", text: "2026-12-01T09:00Z", says: "RFC 3339" },
    { name: "offset without colon", text: "2026-12-01T09:00:00+0200", says: "RFC 3339" },
    { name: "a zone name", text: "2026-12-01T09:00:00[Europe/Paris]", says: "RFC 3339" },
    { name: "a number", text: "1796115600", says: "RFC 3339" },
    { name: "expanded year", text: "+002026-12-01T09:00:00Z", says: "RFC 3339" },
    { name: "comma fraction", text: "2026-12-01T09:00:00,5Z", says: "RFC 3339" },
    { name: "white space around", text: " 2026-12-01T09:00:00Z", says: "RFC 3339" },
    { name: "newline at the end", text: "2026-12-01T09:00:00Z\n", says: "RFC 3339" },
    { name: "other digits", text: "２026-12-01T09:00:00Z", says: "RFC 3339" },
    { name: "30 February", text: "2027-02-30T09:00:00Z", says: "not a date" },
    { name: "29 February of 2027", text: "2027-02-29T09:00:00Z", says: "not a date" },
    { name: "31 April", text: "2027-04-31T09:00:00Z", says: "not a date" },
    { name: "month 13", text: "2027-13-01T09:00:00Z", says: "not a date" },
    { name: "day 0", text: "2027-01-00T09:00:00Z", says: "not a date" },
    { name: "a year of two digits", text: "0026-12-01T09:00:00Z", says: "in the past" },
    { name: "no leap year of two digits", text: "0026-02-29T09:00:00Z", says: "not a date" },
    { name: "hour 24", text: "2026-12-01T24:00:00Z", says: "not a time of day" },
    { name: "minute 60", text: "2026-12-01T09:60:00Z", says: "not a time of day" },
    { name: "leap second", text: "2026-12-31T23:59:60Z", says: "not a time of day" },
    { name: "offset of 24 hours", text: "2026-12-01T09:00:00+24:00", says: "not an offset" },
    { name: "offset of 60 minutes", text: "2026-12-01T09:00:00-01:60", says: "not an offset" },
    { name: "the past", text: "2026-11-21T11:59:54.999Z", says: "in the past" },
    { name: "the past by offset", text: "2026-11-21T12:30:00+01:00", says: "in the past" },
    { name: "beyond ten years", text: "2036-11-21T12:00:00.001Z", says: "at most 10 years" },
  ])("$name", ({ text, says }) => {
    const at = parseRunAt(text, NOW);
    expect(at).toEqual({ field: "run_at", message: expect.stringContaining(says) as string });
  });
});

function compile(schedule: Schedule): CompiledSchedule {
  const result = compileSchedule(schedule);
  if (!result.ok) throw new Error(result.finding.message);
  return result.schedule;
}
