/**
 * Fire times compared with the documented rule by brute force, and with croner where no clock changes.
 * A failure prints its seed; `CARILLON_FUZZ_SEED=n` repeats it.
 */
import { Cron } from "croner";
import { describe, expect, test } from "vitest";
import { compileSchedule, type CompiledSchedule } from "../../../../src/domain/schedule.ts";
import { bruteForce, observe, transitionDays, type Window } from "./brute-force.ts";
import { seededRandom } from "../../../faults/seeded-random.ts";
import { between, pick, randomCron, type RandomCron } from "./random-cron.ts";

const SEED = Number(process.env["CARILLON_FUZZ_SEED"] ?? 20261121);
const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/** Zones with every kind of transition: whole hours, 30 minutes, at midnight, negative DST, a whole day, none. */
const ZONES = [
  "Africa/Cairo",
  "Africa/Casablanca",
  "America/Havana",
  "America/New_York",
  "America/Sao_Paulo",
  "America/Scoresbysund",
  "Antarctica/Troll",
  "Asia/Kathmandu",
  "Asia/Pyongyang",
  "Australia/Lord_Howe",
  "Europe/London",
  "Pacific/Apia",
  "Pacific/Chatham",
  "UTC",
] as const;

describe("fire times against the written rule", { timeout: 60_000 }, () => {
  test("20,000 expressions x zones x instants around and away from clock changes", () => {
    const random = seededRandom(SEED);
    const windows = ZONES.flatMap((zone) => windowsOf(zone, random));
    let fired = 0;
    for (let i = 0; i < 20_000; i += 1)
      fired += check(drawCron(random), pick(random, windows), random);
    // Otherwise nothing would have been compared.
    expect(fired).toBeGreaterThan(100_000);
  });

  test("the clock changes of 2026 and 2027 in every zone of the database", () => {
    const random = seededRandom(SEED + 1);
    const from = Date.UTC(2026, 0, 1);
    let windows = 0;
    for (const zone of Intl.supportedValuesOf("timeZone")) {
      for (const day of transitionDays(zone, from, from + 730 * DAY).slice(0, 2)) {
        const window = observe(zone, day - DAY / 4, day + 1.25 * DAY);
        windows += 1;
        for (let i = 0; i < 12; i += 1) check(drawCron(random), window, random);
      }
    }
    expect(windows).toBeGreaterThan(100);
  });

  test("latest and count over years agree with stepping", () => {
    const random = seededRandom(SEED + 2);
    for (let i = 0; i < 400; i += 1) {
      const zone = pick(random, ZONES);
      const cron = drawCron(random, 0.3);
      const schedule = compile(cron.text, zone);
      const after = Date.UTC(2005, 0, 1) + Math.floor(random() * 30 * 365 * DAY);
      const steps = [];
      for (
        let at = schedule.next(after);
        at !== null && steps.length < 1000;
        at = schedule.next(at)
      )
        steps.push(at);
      const upTo = steps.at(-1) ?? after;
      const what = `seed ${SEED}: ${cron.text} in ${zone} from ${after} to ${upTo}`;
      expect({
        what,
        count: schedule.count(after, upTo),
        countBefore: schedule.count(after, upTo - 1),
        latest: schedule.latest(upTo, after),
        latestBefore: schedule.latest(upTo - 1, after),
      }).toEqual({
        what,
        count: steps.length,
        countBefore: Math.max(steps.length - 1, 0),
        latest: steps.at(-1) ?? null,
        latestBefore: steps.at(-2) ?? null,
      });
    }
  });
});

test("fire times away from clock changes agree with croner", { timeout: 60_000 }, () => {
  const random = seededRandom(SEED + 3);
  const changes = new Map(
    ZONES.map((zone) => [zone, transitionDays(zone, Date.UTC(2025, 0, 1), Date.UTC(2042, 0, 1))]),
  );
  const near = (zone: (typeof ZONES)[number], at: number): boolean =>
    (changes.get(zone) ?? []).some((day) => at > day - 2 * DAY && at < day + 3 * DAY);
  let compared = 0;
  for (let i = 0; i < 3_000; i += 1) {
    const zone = pick(random, ZONES);
    const cron = drawCron(random, 0.4);
    const after = Date.UTC(2026, 0, 1) + Math.floor(random() * 8 * 365 * DAY);
    const ours = compile(cron.text, zone).next(after);
    const theirs = new Cron(cron.text, { timezone: zone, mode: "5-part" }).nextRun(new Date(after));
    if (ours === null || theirs === null || ours > Date.UTC(2041, 0, 1)) continue;
    if (near(zone, after) || near(zone, ours) || near(zone, theirs.getTime())) continue;
    compared += 1;
    const what = `seed ${SEED}: ${cron.text} in ${zone} after ${iso(after)}`;
    expect({ what, next: iso(ours) }).toEqual({ what, next: theirs.toISOString() });
  }
  expect(compared).toBeGreaterThan(2_000);
});

/** Compares next, latest and count over a random part of the window; returns the fire times seen. */
function check(cron: RandomCron, window: Window, random: () => number): number {
  const schedule = compile(cron.text, window.zone);
  const fires = bruteForce(cron, window);
  const [after, upTo] = [moment(random, window, fires), moment(random, window, fires)].sort(
    (a, b) => a - b,
  );
  if (after === undefined || upTo === undefined) throw new Error("two moments");
  const expected = fires.filter((at) => at > after && at <= upTo);
  const stepped: number[] = [];
  let next = schedule.next(after);
  while (next !== null && next <= upTo && stepped.length <= 60) {
    stepped.push(next);
    next = schedule.next(next);
  }
  const fail = (what: string): never =>
    expect.fail(
      `seed ${SEED}: ${cron.text} in ${window.zone} from ${iso(after)} to ${iso(upTo)}: ${what}; the rule says ${expected.slice(0, 61).map(iso).join(" ")}`,
    );
  if (stepped.join() !== expected.slice(0, 61).join())
    fail(`next gives ${stepped.map(iso).join(" ")}`);
  const beyond = fires.find((at) => at > upTo);
  if (stepped.length === expected.length && (next ?? Infinity) !== (beyond ?? next ?? Infinity))
    fail(`next gives ${next} where the rule has ${beyond}`);
  if (beyond === undefined && stepped.length === expected.length && next !== null)
    if (next < window.end) fail(`next gives ${iso(next)}, which the rule does not know`);
  if (schedule.count(after, upTo) !== expected.length)
    fail(`count gives ${schedule.count(after, upTo)}, not ${expected.length}`);
  if (schedule.latest(upTo, after) !== (expected.at(-1) ?? null))
    fail(`latest gives ${schedule.latest(upTo, after)}`);
  return expected.length;
}

/** A random moment of the window: any millisecond, a whole minute, or at or beside a fire time. */
function moment(random: () => number, window: Window, fires: readonly number[]): number {
  const any = between(random, window.start, window.end - 1);
  const kind = random();
  if (kind < 0.4) return any;
  if (kind < 0.6 || fires.length === 0) return Math.floor(any / MINUTE) * MINUTE;
  return Math.max(window.start, pick(random, fires) + between(random, -1, 1));
}

/** Up to seven clock changes of the zone, the largest among them, and a quiet stretch. */
function windowsOf(zone: string, random: () => number): Window[] {
  const days = transitionDays(zone, Date.UTC(2009, 0, 1), Date.UTC(2037, 0, 1));
  const chosen = new Set<number>();
  // Always with Samoa's lost day; in other zones the changes are alike.
  if (zone === "Pacific/Apia") chosen.add(Date.UTC(2011, 11, 30));
  while (days.length > 0 && chosen.size < Math.min(7, days.length)) chosen.add(pick(random, days));
  const windows = [...chosen].map((day) => observe(zone, day - DAY / 4, day + 1.75 * DAY));
  const quiet = Math.floor(Date.UTC(2009, 0, 1) / DAY) + between(random, 0, 10_000);
  return [...windows, observe(zone, quiet * DAY, (quiet + 3) * DAY)];
}

function drawCron(random: () => number, stars?: number): RandomCron {
  for (;;) {
    const cron = randomCron(random, stars);
    if (cron.eitherDay || [...cron.months].some((month) => occurs(cron, month))) return cron;
  }
}

function occurs(cron: RandomCron, month: number): boolean {
  return Math.min(...cron.daysOfMonth) <= new Date(Date.UTC(2024, month, 0)).getUTCDate();
}

function compile(expression: string, timeZone: string): CompiledSchedule {
  const result = compileSchedule({ kind: "cron", expression, timeZone });
  if (!result.ok) throw new Error(`${expression} in ${timeZone}: ${result.finding.message}`);
  return result.schedule;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
