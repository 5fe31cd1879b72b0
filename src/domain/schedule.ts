import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { parseFields } from "./cron/fields.ts";
import { countFireTimes, latestFireTime, nextFireTime } from "./cron/fire-times.ts";
import { MAX_CRON_LENGTH, readCronText } from "./cron/grammar.ts";
import { findZone, MAX_ZONE_LENGTH } from "./cron/zone.ts";
import type { Finding } from "./findings.ts";
import { HOUR, isoUtc, MINUTE, SECOND, type Instant } from "./instant.ts";
import type { JobSpec, Schedule } from "./job.ts";

/** When a job fires, ready to be asked. Pure, and shared between the jobs of the same schedule. */
export interface CompiledSchedule {
  /** The first fire time strictly after `after`; null when there is none (a one-time's has passed). */
  next(after: Instant): Instant | null;
  /** The latest fire time in (after, atOrBefore]; null when there is none. */
  latest(atOrBefore: Instant, after: Instant): Instant | null;
  /** How many fire times lie in (after, upTo]; cheap for any length of time. */
  count(after: Instant, upTo: Instant): number;
}

export type CompileResult =
  | { ok: true; schedule: CompiledSchedule }
  /** In the REST API's terms: `cron_expression`, `timezone` or `run_at`. */
  | { ok: false; finding: Finding };

/** Cron schedules that are kept; most jobs of an installation share a few thousand. */
export const MOST_SCHEDULES = 16_384;

/** Compiled cron schedules; a miss costs some 50 µs. Refusals are not kept: they are quickly found again. */
const compiled = new LRUCache<string, { ok: true; schedule: CompiledSchedule }>({
  max: MOST_SCHEDULES,
});

/** Whether the schedule is valid, and if so its fire times. */
export function compileSchedule(schedule: Schedule): CompileResult {
  return schedule.kind === "once" ? compileOnce(schedule.at) : compileCron(schedule);
}

type CronSchedule = Extract<Schedule, { kind: "cron" }>;

/** One text for each cron schedule. Undefined for a one-time schedule, and for one that is too long to be valid. */
export function cronKey(schedule: Schedule): string | undefined {
  if (schedule.kind !== "cron") return undefined;
  const { expression, timeZone } = schedule;
  if (expression.length > MAX_CRON_LENGTH || timeZone.length > MAX_ZONE_LENGTH) return undefined;
  // Says where the one ends, because either may hold anything.
  return `${expression.length} ${expression}${timeZone}`;
}

/** The last moment whose year has four digits in every zone. */
const LAST_MOMENT = Date.UTC(9999, 11, 31);

/** REST refuses times so far away; a resource may have one, which neither the database nor a reader could be given. */
function compileOnce(at: Instant): CompileResult {
  if (at < 0 || at > LAST_MOMENT)
    return { ok: false, finding: { field: "run_at", message: "must lie between 1970 and 9999" } };
  return { ok: true, schedule: oneTime(at) };
}

function compileCron(cron: CronSchedule): CompileResult {
  const key = cronKey(cron);
  const cached = key === undefined ? undefined : compiled.get(key);
  if (cached) return cached;
  const text = readCronText(cron.expression);
  if (!text.ok) return { ok: false, finding: { field: "cron_expression", message: text.message } };
  const found = findZone(cron.timeZone);
  if (!found.ok) return { ok: false, finding: { field: "timezone", message: found.message } };
  const times = { fields: parseFields(text.cron), zone: found.zone };
  const result = {
    ok: true,
    schedule: {
      next: (after: Instant) => nextFireTime(times, after),
      latest: (atOrBefore: Instant, after: Instant) => latestFireTime(times, atOrBefore, after),
      count: (after: Instant, upTo: Instant) => countFireTimes(times, after, upTo),
    },
  } as const;
  if (key !== undefined) compiled.set(key, result);
  return result;
}

function oneTime(at: Instant): CompiledSchedule {
  const within = (after: Instant, upTo: Instant): boolean => at > after && at <= upTo;
  return {
    next: (after) => (at > after ? at : null),
    latest: (atOrBefore, after) => (within(after, atOrBefore) ? at : null),
    count: (after, upTo) => (within(after, upTo) ? 1 : 0),
  };
}

/**
 * What the cursor remembers of a spec: a hash of schedule, zone and suspension. Any difference moves the cursor to now.
 * Hashes are stored in PostgreSQL, so that hashing anything else, or otherwise, would move every cursor.
 */
export function scheduleHash(spec: Pick<JobSpec, "schedule" | "suspend">): string {
  const { schedule, suspend } = spec;
  const parts =
    schedule.kind === "cron"
      ? ["cron", schedule.expression, schedule.timeZone, suspend]
      : ["once", schedule.at, suspend];
  // Not a slice of the whole text, which V8 would keep with it: there is one for each job.
  return hash("sha256", JSON.stringify(parts), "buffer").toString("hex", 0, 16);
}

/** How far in the past a `run_at` may lie: a request takes time, and clocks differ. */
const RUN_AT_GRACE = 5 * SECOND;
const RUN_AT_YEARS = 10;

const RFC_3339 =
  /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:Z|([+-])(\d{2}):(\d{2}))$/i;

/** Reads the time of a one-time job, which is at most five seconds ago and at most ten years ahead. */
export function parseRunAt(text: string, now: Instant): Instant | Finding {
  const at = parseFireTime(text);
  if (typeof at !== "number") return at;
  if (at < now - RUN_AT_GRACE)
    return runAtFinding(`lies in the past (it is ${isoUtc(now)} now): choose a time to come`);
  if (at > yearsAfter(now, RUN_AT_YEARS))
    return runAtFinding(`must be at most ${RUN_AT_YEARS} years ahead`);
  return at;
}

/**
 * RFC 3339 with offset, a real date. Fractions finer than a millisecond are rounded up, so that nothing fires
 * early. Leap seconds (:60) are refused: no clock here shows them.
 */
export function parseFireTime(text: string): Instant | Finding {
  const match = RFC_3339.exec(text);
  if (!match)
    return runAtFinding(
      "must be a date and time with an offset as in RFC 3339, such as 2030-01-31T09:00:00Z or 2030-01-31T09:00:00+02:00",
    );
  const [, year, month, day, hour, minute, second, fraction = "", sign, offHour, offMinute] = match;
  // Not Date.UTC, which takes the year 26 for 1926.
  const midnight = new Date(0).setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  // 31 April is carried over into May: a date is real when it comes back as it was written.
  if (!isoUtc(midnight).startsWith(`${year}-${month}-${day}T`))
    return runAtFinding(
      `${year}-${month}-${day} is not a date of the calendar: check month and day`,
    );
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59)
    return runAtFinding(
      `${hour}:${minute}:${second} is not a time of day: hours go to 23, minutes and seconds to 59`,
    );
  if (Number(offHour ?? 0) > 23 || Number(offMinute ?? 0) > 59)
    return runAtFinding(
      `${sign}${offHour}:${offMinute} is not an offset: write one such as +02:00`,
    );
  const offset = Number(offHour ?? 0) * HOUR + Number(offMinute ?? 0) * MINUTE;
  return (
    midnight +
    Number(hour) * HOUR +
    Number(minute) * MINUTE +
    Number(second) * SECOND +
    Number(fraction.slice(0, 3).padEnd(3, "0")) +
    (/[1-9]/.test(fraction.slice(3)) ? 1 : 0) -
    (sign === "-" ? -offset : offset)
  );
}

function runAtFinding(message: string): Finding {
  return { field: "run_at", message };
}

function yearsAfter(instant: Instant, years: number): Instant {
  const date = new Date(instant);
  return date.setUTCFullYear(date.getUTCFullYear() + years);
}
