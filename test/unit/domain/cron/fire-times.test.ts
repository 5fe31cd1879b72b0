import { describe, expect, test } from "vitest";
import { compileSchedule, type CompiledSchedule } from "../../../../src/domain/schedule.ts";

interface Row {
  name: string;
  cron: string;
  zone: string;
  after: string;
  fires: readonly string[];
}

/** Fire times in UTC, to the minute. */
const calendar: readonly Row[] = [
  {
    name: "strictly after: from a fire time to the next",
    cron: "0 3 * * *",
    zone: "UTC",
    after: "2026-11-21T03:00:00Z",
    fires: ["2026-11-22T03:00", "2026-11-23T03:00"],
  },
  {
    name: "a millisecond before counts",
    cron: "0 3 * * *",
    zone: "UTC",
    after: "2026-11-21T02:59:59.999Z",
    fires: ["2026-11-21T03:00"],
  },
  {
    name: "leap day across an ordinary four years",
    cron: "0 0 29 2 *",
    zone: "UTC",
    after: "2026-01-01T00:00:00Z",
    fires: ["2028-02-29T00:00", "2032-02-29T00:00"],
  },
  {
    name: "leap day across 2100, which has none",
    cron: "0 0 29 FEB *",
    zone: "Asia/Kathmandu",
    after: "2096-03-01T00:00:00Z",
    fires: ["2104-02-28T18:15"],
  },
  {
    name: "2000 had one",
    cron: "0 0 29 2 *",
    zone: "UTC",
    after: "1996-03-01T00:00:00Z",
    fires: ["2000-02-29T00:00"],
  },
  {
    name: "the 31st skips short months",
    cron: "0 0 31 * *",
    zone: "UTC",
    after: "2026-01-31T00:00:00Z",
    fires: ["2026-03-31T00:00", "2026-05-31T00:00", "2026-07-31T00:00", "2026-08-31T00:00"],
  },
  {
    name: "month end and year end in one step",
    cron: "59 23 31 12 *",
    zone: "UTC",
    after: "2026-12-31T23:59:00Z",
    fires: ["2027-12-31T23:59"],
  },
  {
    name: "day-of-month OR day-of-week",
    cron: "0 0 13 * FRI",
    zone: "UTC",
    after: "2026-11-06T00:00:00Z",
    fires: ["2026-11-13T00:00", "2026-11-20T00:00", "2026-11-27T00:00", "2026-12-04T00:00"],
  },
  {
    name: "a stepped star restricts: */10 OR Monday",
    cron: "0 0 */10 * MON",
    zone: "UTC",
    after: "2026-11-01T00:00:00Z",
    fires: ["2026-11-02T00:00", "2026-11-09T00:00", "2026-11-11T00:00", "2026-11-16T00:00"],
  },
  {
    name: "a plain star does not: only the 15th",
    cron: "0 0 15 * *",
    zone: "UTC",
    after: "2026-11-01T00:00:00Z",
    fires: ["2026-11-15T00:00", "2026-12-15T00:00"],
  },
  {
    name: "an impossible date OR a weekday",
    cron: "0 0 30 2 MON",
    zone: "UTC",
    after: "2026-11-01T00:00:00Z",
    fires: ["2027-02-01T00:00", "2027-02-08T00:00"],
  },
  {
    name: "names, ranges, lists and steps at once",
    cron: "0,30-50/10 8-10/2 * JAN,MAR-APR MON-TUE",
    zone: "UTC",
    after: "2027-01-31T00:00:00Z",
    fires: ["2027-03-01T08:00", "2027-03-01T08:30", "2027-03-01T08:40", "2027-03-01T08:50"],
  },
  {
    name: "Sunday is 0 and 7",
    cron: "0 0 * * 7",
    zone: "UTC",
    after: "2026-11-21T00:00:00Z",
    fires: ["2026-11-22T00:00", "2026-11-29T00:00"],
  },
  {
    name: "minutes 29, 30 and 59",
    cron: "29,30,59 23 * * *",
    zone: "UTC",
    after: "2026-11-21T00:00:00Z",
    fires: ["2026-11-21T23:29", "2026-11-21T23:30", "2026-11-21T23:59", "2026-11-22T23:29"],
  },
  {
    name: "before 1970",
    cron: "0 12 1 * *",
    zone: "UTC",
    after: "1969-11-30T00:00:00Z",
    fires: ["1969-12-01T12:00", "1970-01-01T12:00"],
  },
  {
    name: "@weekly is Sunday midnight of the zone",
    cron: "@weekly",
    zone: "America/New_York",
    after: "2026-11-21T00:00:00Z",
    fires: ["2026-11-22T05:00", "2026-11-29T05:00"],
  },
];

const clockChanges: readonly Row[] = [
  {
    name: "gap: a fixed time in it runs right after it",
    cron: "30 2 * * *",
    zone: "America/New_York",
    after: "2026-03-07T08:00:00Z",
    fires: ["2026-03-08T07:00", "2026-03-09T06:30"],
  },
  {
    name: "gap: several fixed times in it collapse into one",
    cron: "0,15,45 2 * * *",
    zone: "America/New_York",
    after: "2026-03-07T08:00:00Z",
    fires: ["2026-03-08T07:00", "2026-03-09T06:00"],
  },
  {
    name: "gap: collapses with a time right at its end",
    cron: "30 2,3 * * *",
    zone: "America/New_York",
    after: "2026-03-08T06:00:00Z",
    fires: ["2026-03-08T07:00", "2026-03-08T07:30", "2026-03-09T06:30"],
  },
  {
    name: "gap: its end is one fire time even when both match",
    cron: "0 2,3 * * *",
    zone: "America/New_York",
    after: "2026-03-08T06:00:00Z",
    fires: ["2026-03-08T07:00", "2026-03-09T06:00"],
  },
  {
    name: "gap: a job that starts with a star follows elapsed time",
    cron: "*/30 * * * *",
    zone: "America/New_York",
    after: "2026-03-08T06:00:00Z",
    fires: ["2026-03-08T06:30", "2026-03-08T07:00", "2026-03-08T07:30"],
  },
  {
    name: "gap: a star in the minute alone leaves the gap's hour out",
    cron: "*/30 2 * * *",
    zone: "America/New_York",
    after: "2026-03-07T08:00:00Z",
    fires: ["2026-03-09T06:00", "2026-03-09T06:30"],
  },
  {
    name: "overlap: a fixed time runs once, the first",
    cron: "30 1 * * *",
    zone: "America/New_York",
    after: "2026-10-31T06:00:00Z",
    fires: ["2026-11-01T05:30", "2026-11-02T06:30"],
  },
  {
    name: "overlap: asked between the two, the second is not one",
    cron: "30 1 * * *",
    zone: "America/New_York",
    after: "2026-11-01T05:45:00Z",
    fires: ["2026-11-02T06:30"],
  },
  {
    name: "overlap: asked inside the repeated hour",
    cron: "30 1 * * *",
    zone: "America/New_York",
    after: "2026-11-01T06:10:00Z",
    fires: ["2026-11-02T06:30"],
  },
  {
    name: "overlap: hourly jobs run in both hours",
    cron: "0 * * * *",
    zone: "America/New_York",
    after: "2026-11-01T04:30:00Z",
    fires: ["2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00"],
  },
  {
    name: "overlap: a star in the minute runs through both",
    cron: "*/30 1 * * *",
    zone: "Europe/London",
    after: "2026-10-24T23:45:00Z",
    fires: ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30"],
  },
  {
    name: "overlap: every hour written out is no star",
    cron: "0 0-23 * * *",
    zone: "Europe/London",
    after: "2026-10-24T23:30:00Z",
    fires: ["2026-10-25T00:00", "2026-10-25T02:00"],
  },
  {
    name: "30-minute gap of Lord Howe",
    cron: "15 2 * * *",
    zone: "Australia/Lord_Howe",
    after: "2026-10-03T00:00:00Z",
    fires: ["2026-10-03T15:30", "2026-10-04T15:15"],
  },
  {
    name: "30-minute overlap of Lord Howe",
    cron: "45 1 * * *",
    zone: "Australia/Lord_Howe",
    after: "2026-04-03T16:00:00Z",
    fires: ["2026-04-04T14:45", "2026-04-05T15:15"],
  },
  {
    name: "gap at midnight (Havana): the day still begins",
    cron: "0 0 * * *",
    zone: "America/Havana",
    after: "2026-03-07T06:00:00Z",
    fires: ["2026-03-08T05:00", "2026-03-09T04:00"],
  },
  {
    name: "overlap across midnight (São Paulo 2018): the first 23:30",
    cron: "30 23 * * *",
    zone: "America/Sao_Paulo",
    after: "2018-02-17T02:00:00Z",
    fires: ["2018-02-18T01:30", "2018-02-19T02:30"],
  },
  {
    name: "Scoresbysund 2024 changes zone and season at once, so that nothing moves",
    cron: "30 23 * * *",
    zone: "America/Scoresbysund",
    after: "2024-03-30T12:00:00Z",
    fires: ["2024-03-31T00:30", "2024-04-01T00:30"],
  },
  {
    name: "Scoresbysund 2025 jumps over the last hour of a day",
    cron: "30 23 * * *",
    zone: "America/Scoresbysund",
    after: "2025-03-29T12:00:00Z",
    fires: ["2025-03-30T01:00", "2025-03-31T00:30"],
  },
  {
    name: "Casablanca falls back when Ramadan begins (2023)",
    cron: "30 2 * * *",
    zone: "Africa/Casablanca",
    after: "2023-03-18T12:00:00Z",
    fires: ["2023-03-19T01:30", "2023-03-20T02:30"],
  },
  {
    name: "Casablanca springs forward when it ends (2023)",
    cron: "30 2 * * *",
    zone: "Africa/Casablanca",
    after: "2023-04-22T12:00:00Z",
    fires: ["2023-04-23T02:00", "2023-04-24T01:30"],
  },
  {
    name: "Troll jumps two hours, collapsed",
    cron: "30 1,2 * * *",
    zone: "Antarctica/Troll",
    after: "2026-03-28T12:00:00Z",
    fires: ["2026-03-29T01:00", "2026-03-29T23:30"],
  },
  {
    name: "Apia loses 30 December 2011: noon runs as the next day begins",
    cron: "0 12 * * *",
    zone: "Pacific/Apia",
    after: "2011-12-29T12:00:00Z",
    fires: ["2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00"],
  },
  {
    name: "Apia: a yearly job of the lost day is not lost",
    cron: "0 12 30 12 *",
    zone: "Pacific/Apia",
    after: "2011-01-01T00:00:00Z",
    fires: ["2011-12-30T10:00", "2012-12-29T22:00"],
  },
  {
    name: "Apia: hourly jobs go on by elapsed time",
    cron: "@hourly",
    zone: "Pacific/Apia",
    after: "2011-12-30T08:30:00Z",
    fires: ["2011-12-30T09:00", "2011-12-30T10:00", "2011-12-30T11:00"],
  },
  {
    name: "Pyongyang moves by 30 minutes for good (2018)",
    cron: "45 23 * * *",
    zone: "Asia/Pyongyang",
    after: "2018-05-03T12:00:00Z",
    fires: ["2018-05-03T15:15", "2018-05-04T15:00", "2018-05-05T14:45"],
  },
];

describe.each([
  { title: "the calendar", rows: calendar },
  { title: "clock changes", rows: clockChanges },
])("$title", ({ rows }) => {
  test.each(rows)("$name", ({ cron, zone, after, fires }) => {
    const schedule = compile(cron, zone);
    const expected = fires.map((text) => `${text}:00.000Z`);
    const found: string[] = [];
    let at = Date.parse(after);
    while (found.length < expected.length) {
      const next = schedule.next(at);
      if (next === null) break;
      at = next;
      found.push(new Date(at).toISOString());
    }
    expect(found).toEqual(expected);
    expect(schedule.count(Date.parse(after), at)).toBe(expected.length);
    expect(schedule.latest(at, Date.parse(after))).toBe(at);
    expect(schedule.latest(at - 1, Date.parse(after)) ?? null).toBe(
      expected.length > 1 ? Date.parse(expected.at(-2) ?? "") : null,
    );
  });
});

describe("spans", () => {
  test("an empty or backward span has no fire times", () => {
    const schedule = compile("* * * * *", "UTC");
    const at = Date.UTC(2026, 0, 1);
    expect(schedule.count(at, at)).toBe(0);
    expect(schedule.count(at, at - 60_000)).toBe(0);
    expect(schedule.latest(at, at)).toBeNull();
    expect(schedule.latest(at - 60_000, at)).toBeNull();
  });

  test("a year of a minutely job is counted, not stepped through", () => {
    const schedule = compile("* * * * *", "Europe/London");
    const [from, to] = [Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1)];
    expect(schedule.count(from, to)).toBe(525_600);
    const before = process.cpuUsage();
    for (let i = 0; i < 100; i += 1) schedule.count(from + i, to);
    // Processor time in milliseconds, because the machine may be busy with other things.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(500);
  });

  test("the latest of a rare job is found years back, but not below the bound", () => {
    const schedule = compile("0 0 29 2 *", "UTC");
    const leapDay = Date.UTC(2024, 1, 29);
    expect(schedule.latest(Date.UTC(2027, 5, 1), 0)).toBe(leapDay);
    expect(schedule.latest(Date.UTC(2027, 5, 1), leapDay)).toBeNull();
  });

  test("instants between milliseconds are in order too", () => {
    const schedule = compile("0 3 * * *", "UTC");
    const at = Date.UTC(2026, 0, 1, 3);
    expect(schedule.next(at - 0.25)).toBe(at);
    expect(schedule.latest(at + 0.25, at - 0.25)).toBe(at);
    expect(schedule.count(at - 0.25, at + 0.25)).toBe(1);
  });
});

function compile(expression: string, timeZone: string): CompiledSchedule {
  const result = compileSchedule({ kind: "cron", expression, timeZone });
  if (!result.ok) throw new Error(`${expression} in ${timeZone}: ${result.finding.message}`);
  return result.schedule;
}
