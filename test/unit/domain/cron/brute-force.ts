/**
 * The documented rule, applied minute by minute to Intl's wall clock: slow, simple, and without any code of what it
 * judges.
 */
import type { RandomCron } from "./random-cron.ts";

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/** Long enough to know which times an overlap repeats: since 2009 no clock was set back by 4 hours. */
const WARM_UP = DAY / 6;

/** What the zone's wall clock showed in each minute from `start` (a whole minute) to `end`. */
export interface Window {
  zone: string;
  start: number;
  end: number;
  minutes: readonly WallMinute[];
}

interface WallMinute {
  at: number;
  shown: Reading;
  /** The clock showed the same time in an earlier minute. */
  again: boolean;
  /** The times that the clock jumped over right before this minute. */
  skipped: readonly Reading[];
}

interface Reading {
  minute: number;
  hour: number;
  day: number;
  month: number;
  weekday: number;
}

export function observe(zone: string, start: number, end: number): Window {
  const clock = wallClock(zone);
  const minutes: WallMinute[] = [];
  const seen = new Set<number>();
  let last: number | undefined;
  for (let at = start - WARM_UP; at < end; at += MINUTE) {
    const shown = clock(at);
    const skipped: Reading[] = [];
    if (last !== undefined)
      for (let jumped = last + MINUTE; jumped < shown; jumped += MINUTE)
        if (!seen.has(jumped)) skipped.push(reading(jumped));
    if (at >= start) minutes.push({ at, shown: reading(shown), again: seen.has(shown), skipped });
    seen.add(shown);
    last = shown;
  }
  return { zone, start, end, minutes };
}

/** All fire times in [window.start, window.end), in order. */
export function bruteForce(cron: RandomCron, window: Window): number[] {
  const matches = matcher(cron);
  const fires: number[] = [];
  for (const { at, shown, again, skipped } of window.minutes) {
    const due = cron.followsElapsedTime
      ? matches(shown)
      : (!again && matches(shown)) || skipped.some(matches);
    if (due) fires.push(at);
  }
  return fires;
}

/** The days in which the zone's offset changes, by their first instant: `from` plus whole days. */
export function transitionDays(zone: string, from: number, to: number): number[] {
  const clock = wallClock(zone);
  const offset = (at: number): number => clock(at) - at;
  const days: number[] = [];
  for (let at = from; at < to; at += 5 * DAY) {
    if (offset(at) === offset(at + 5 * DAY)) continue;
    for (let day = at; day < at + 5 * DAY; day += DAY)
      if (offset(day) !== offset(day + DAY)) days.push(day);
  }
  return days;
}

function matcher(cron: RandomCron): (reading: Reading) => boolean {
  const [minutes, hours, days, months, weekdays] = [
    cron.minutes,
    cron.hours,
    cron.daysOfMonth,
    cron.months,
    cron.daysOfWeek,
  ].map((set) => Array.from({ length: 60 }, (_, value) => set.has(value)));
  if (!minutes || !hours || !days || !months || !weekdays) throw new Error("five fields");
  return ({ minute, hour, day, month, weekday }) => {
    if (!minutes[minute] || !hours[hour] || !months[month]) return false;
    return cron.eitherDay
      ? days[day] === true || weekdays[weekday] === true
      : days[day] === true && weekdays[weekday] === true;
  };
}

function reading(wall: number): Reading {
  const date = new Date(wall);
  return {
    minute: date.getUTCMinutes(),
    hour: date.getUTCHours(),
    day: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    weekday: date.getUTCDay(),
  };
}

/** The time that a wall clock shows, written as if it were UTC. */
function wallClock(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  });
  return (at) => {
    const text = format.format(at);
    if (text.length !== "12/31/2026, 23:59".length) throw new Error(`Intl wrote ${text}`);
    const number = (from: number, to: number): number => Number(text.slice(from, to));
    return Date.UTC(number(6, 10), number(0, 2) - 1, number(3, 5), number(12, 14), number(15, 17));
  };
}
