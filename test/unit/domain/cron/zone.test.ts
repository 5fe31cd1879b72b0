import { describe, expect, test } from "vitest";
import {
  findZone,
  offsetFormat,
  segmentsBetween,
  type Zone,
} from "../../../../src/domain/cron/zone.ts";

const HOUR = 3_600_000;

describe("names", () => {
  test.each([
    { name: "UTC" },
    { name: "Europe/Paris" },
    { name: "America/Argentina/Buenos_Aires" },
    { name: "Asia/Katmandu" },
    { name: "America/Port-au-Prince" },
    { name: "Etc/GMT+5" },
    { name: "Etc/GMT-14" },
    { name: "GMT+0" },
    { name: "GMT0" },
    { name: "EST5EDT" },
    ...["CET", "EET", "EST", "GMT", "HST", "MET", "MST", "PRC", "ROC", "ROK", "UCT", "WET"].map(
      (name) => ({ name }),
    ),
    { name: "NZ-CHAT" },
    { name: "W-SU" },
    { name: "GB" },
    { name: "Zulu" },
    { name: "europe/paris" },
    { name: "utc" },
  ])("$name is a zone", ({ name }) => {
    expect(findZone(name)).toMatchObject({ ok: true });
  });

  test.each([
    { name: "", says: "must not be empty" },
    { name: "+02:00", says: "is an offset" },
    { name: "-0500", says: "is an offset" },
    { name: "\u221205:00", says: "is an offset" },
    { name: "2", says: "is an offset" },
    { name: "UTC+2", says: "is an offset" },
    { name: "GMT+5", says: "is an offset" },
    { name: "Etc/GMT+15", says: "is not a time zone" },
    { name: "PST", says: "several zones share" },
    { name: "IST", says: "several zones share" },
    { name: "BST", says: "several zones share" },
    { name: "CEST", says: "is not a time zone" },
    { name: "SystemV/PST8", says: "is not a time zone" },
    { name: "Mars/Phobos", says: "is not a time zone" },
    { name: "Local", says: "is not a time zone" },
    { name: "localtime", says: "is not a time zone" },
    { name: "posix/Europe/Paris", says: "is not a time zone" },
    { name: "Europe/Paris ", says: "is not a time zone" },
    { name: "Europe/Paris\n", says: "is not a time zone" },
    { name: "../etc/passwd", says: "is not a time zone" },
    { name: "CET-1CEST,M3.5.0,M10.5.0/3", says: "is not a time zone" },
    { name: "constructor", says: "is not a time zone" },
    { name: "A".repeat(100_000), says: "is not a time zone" },
  ])("$name is refused", ({ name, says }) => {
    const result = findZone(name);
    const message = result.ok ? "accepted" : result.message;
    expect(message).toContain(says);
    expect(message.length).toBeLessThan(200);
  });

  test("jobs share one table, however they spell the zone", () => {
    expect(zone("Europe/Paris")).toBe(zone("EUROPE/paris"));
  });
});

describe("segments", () => {
  test("cover time without holes, and change exactly at the transitions", () => {
    const paris = zone("Europe/Paris");
    const changes: string[] = [];
    let segment = paris.at(Date.UTC(2026, 0, 1));
    while (segment.start < Date.UTC(2029, 0, 1)) {
      const next = paris.at(segment.end);
      expect(next.start).toBe(segment.end);
      expect(paris.at(segment.end - 1)).toBe(segment);
      if (next.offset !== segment.offset) changes.push(new Date(next.start).toISOString());
      segment = next;
    }
    expect(changes).toEqual([
      "2026-03-29T01:00:00.000Z",
      "2026-10-25T01:00:00.000Z",
      "2027-03-28T01:00:00.000Z",
      "2027-10-31T01:00:00.000Z",
      "2028-03-26T01:00:00.000Z",
      "2028-10-29T01:00:00.000Z",
    ]);
  });

  test("know how far the wall clock had got: a gap, an overlap, and a cut that is neither", () => {
    const paris = zone("Europe/Paris");
    const gap = paris.at(Date.UTC(2026, 2, 29, 1));
    expect(gap.start + gap.offset - gap.reached).toBe(HOUR);
    const overlap = paris.at(Date.UTC(2026, 9, 25, 1));
    expect(overlap.start + overlap.offset - overlap.reached).toBe(-HOUR);
    const utc = zone("UTC").at(Date.UTC(2026, 6, 1));
    expect(zone("UTC").at(utc.end).reached).toBe(utc.end);
  });

  test.each([
    { name: "Asia/Kathmandu", at: "2026-01-01T00:00:00Z", minutes: 345 },
    { name: "Australia/Lord_Howe", at: "2026-01-01T00:00:00Z", minutes: 660 },
    { name: "Australia/Lord_Howe", at: "2026-07-01T00:00:00Z", minutes: 630 },
    { name: "America/St_Johns", at: "2026-01-01T00:00:00Z", minutes: -210 },
    { name: "Etc/GMT+5", at: "2026-01-01T00:00:00Z", minutes: -300 },
    { name: "Africa/Monrovia", at: "1971-01-01T00:00:00Z", minutes: -44.5 },
  ])("$name at $at is $minutes minutes off UTC", ({ name, at, minutes }) => {
    expect(zone(name).at(Date.parse(at)).offset).toBe(minutes * 60_000);
  });

  test.each([
    { name: "right at a gap", start: "2026-03-29T01:00:00Z", jumped: 1 },
    { name: "a second after a gap", start: "2026-03-29T01:00:01Z", jumped: 0 },
    { name: "right at an overlap", start: "2026-10-25T01:00:00Z", jumped: -1 },
    { name: "in the middle of an overlap", start: "2026-10-25T01:30:00Z", jumped: -0.5 },
    { name: "as the overlap ends", start: "2026-10-25T02:00:00Z", jumped: 0 },
  ])("a table that begins $name", ({ start, jumped }) => {
    const format = offsetFormat("Europe/Paris");
    if (!format) throw new Error("Intl does not know Paris");
    const from = Date.parse(start);
    const [first] = segmentsBetween(format, from, from + 24 * HOUR);
    if (!first) throw new Error("a table is never empty");
    expect(first.start).toBe(from);
    expect(first.start + first.offset - first.reached).toBe(jumped * HOUR);
  });

  // 7 days is the shortest time between two changes since 1970: the sampling must not miss it, wherever it begins.
  test.each(Array.from({ length: 8 }, (_, day) => day))(
    "find two changes within a week, in a table from day %s",
    (day) => {
      const format = offsetFormat("America/Noronha");
      if (!format) throw new Error("Intl does not know Noronha");
      const start = Date.UTC(2000, 8, 20 + day);
      const segments = segmentsBetween(format, start, start + 40 * 24 * HOUR);
      expect(segments.map(({ offset }) => offset / HOUR)).toEqual([-2, -1, -2]);
    },
  );

  test("an instant that no calendar holds is an error, not a loop", () => {
    expect(() => zone("UTC").at(Number.NaN)).toThrow(RangeError);
    expect(() => zone("UTC").at(Infinity)).toThrow(RangeError);
  });
});

function zone(name: string): Zone {
  const result = findZone(name);
  if (!result.ok) throw new Error(result.message);
  return result.zone;
}
