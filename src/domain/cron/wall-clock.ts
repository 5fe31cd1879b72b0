import type { CronFields } from "./fields.ts";

/**
 * A reading of a wall clock, in whole minutes since 1970-01-01 00:00 on that same clock. It names no
 * moment: only a zone's segment turns it into one.
 */
export type WallMinute = number;

const MINUTES_PER_DAY = 1440;

/** The first matching reading in [from, before); null when there is none. */
export function firstMatch(
  fields: CronFields,
  from: WallMinute,
  before: WallMinute,
): WallMinute | null {
  if (from >= before) return null;
  const today = Math.floor(from / MINUTES_PER_DAY);
  let month = monthOf(today);
  let earliest = daysBefore(month);
  for (;;) {
    const first = earliest;
    if (first * MINUTES_PER_DAY >= before) return null;
    earliest = daysBefore(month + 1);
    let days = matchingDays(fields, month, first, earliest - first);
    if (today > first) days &= -1 << (today - first);
    while (days !== 0) {
      const day = first + lowest(days);
      const minute = firstMinute(fields, day === today ? from - today * MINUTES_PER_DAY : 0);
      if (minute >= 0) {
        const match = day * MINUTES_PER_DAY + minute;
        return match < before ? match : null;
      }
      days &= days - 1;
    }
    month += 1;
  }
}

/** The last matching reading in [from, before); null when there is none. */
export function lastMatch(
  fields: CronFields,
  from: WallMinute,
  before: WallMinute,
): WallMinute | null {
  if (from >= before) return null;
  const latest = before - 1;
  const today = Math.floor(latest / MINUTES_PER_DAY);
  let month = monthOf(today);
  let end = daysBefore(month + 1);
  for (;;) {
    if (end * MINUTES_PER_DAY <= from) return null;
    const first = daysBefore(month);
    let days = matchingDays(fields, month, first, end - first);
    if (today < end) days &= -1 >>> (31 - (today - first));
    while (days !== 0) {
      const bit = 31 - Math.clz32(days);
      const day = first + bit;
      const minute = lastMinute(
        fields,
        day === today ? latest - today * MINUTES_PER_DAY : MINUTES_PER_DAY - 1,
      );
      if (minute >= 0) {
        const match = day * MINUTES_PER_DAY + minute;
        return match >= from ? match : null;
      }
      days ^= 1 << bit;
    }
    end = first;
    month -= 1;
  }
}

/** How many readings in [from, before) match. Costs a step per month, not per match. */
export function countMatches(fields: CronFields, from: WallMinute, before: WallMinute): number {
  if (from >= before) return 0;
  const firstDay = Math.floor(from / MINUTES_PER_DAY);
  const lastDay = Math.floor(before / MINUTES_PER_DAY);
  const head = from - firstDay * MINUTES_PER_DAY;
  const tail = before - lastDay * MINUTES_PER_DAY;
  return (
    countDays(fields, firstDay, lastDay) * minutesBefore(fields, MINUTES_PER_DAY) -
    (countDays(fields, firstDay, firstDay + 1) === 1 ? minutesBefore(fields, head) : 0) +
    (countDays(fields, lastDay, lastDay + 1) === 1 ? minutesBefore(fields, tail) : 0)
  );
}

/** Matching days in [from, to), days since 1970-01-01. */
function countDays(fields: CronFields, from: number, to: number): number {
  let total = 0;
  let month = monthOf(from);
  let first = daysBefore(month);
  while (first < to) {
    const next = daysBefore(month + 1);
    let days = matchingDays(fields, month, first, next - first);
    if (from > first) days &= -1 << (from - first);
    if (to < next) days &= (1 << (to - first)) - 1;
    total += ones(days);
    first = next;
    month += 1;
  }
  return total;
}

/** Bit i: day i + 1 of this month matches. `month` counts from year 0, `first` is its day number. */
function matchingDays(fields: CronFields, month: number, first: number, length: number): number {
  if ((fields.months & (1 << modulo(month, 12))) === 0) return 0;
  // The week's pattern, turned so that bit 0 is the weekday of the 1st (1970-01-01 was a Thursday).
  const weekday = modulo(first + 4, 7);
  const week = ((fields.daysOfWeek >>> weekday) | (fields.daysOfWeek << (7 - weekday))) & 0x7f;
  const byWeekday = week | (week << 7) | (week << 14) | (week << 21) | (week << 28);
  const days = fields.eitherDay ? fields.daysOfMonth | byWeekday : fields.daysOfMonth & byWeekday;
  return days & (-1 >>> (32 - length));
}

/** The first matching minute of a day at or after `from`; -1 when there is none. */
function firstMinute(fields: CronFields, from: number): number {
  const hour = Math.floor(from / 60);
  if ((fields.hours & (1 << hour)) !== 0) {
    const minute = minuteFrom(fields, from - hour * 60);
    if (minute >= 0) return hour * 60 + minute;
  }
  const later = fields.hours & (-2 << hour);
  return later === 0 ? -1 : lowest(later) * 60 + minuteFrom(fields, 0);
}

/** The last matching minute of a day at or before `until`; -1 when there is none. */
function lastMinute(fields: CronFields, until: number): number {
  const hour = Math.floor(until / 60);
  if ((fields.hours & (1 << hour)) !== 0) {
    const minute = minuteUntil(fields, until - hour * 60);
    if (minute >= 0) return hour * 60 + minute;
  }
  const earlier = fields.hours & ((1 << hour) - 1);
  return earlier === 0 ? -1 : (31 - Math.clz32(earlier)) * 60 + minuteUntil(fields, 59);
}

function minuteFrom(fields: CronFields, from: number): number {
  if (from < 30) {
    const low = fields.minutesLow & (-1 << from);
    if (low !== 0) return lowest(low);
  }
  const high = from > 30 ? fields.minutesHigh & (-1 << (from - 30)) : fields.minutesHigh;
  return high === 0 ? -1 : 30 + lowest(high);
}

function minuteUntil(fields: CronFields, until: number): number {
  if (until >= 30) {
    const high = fields.minutesHigh & (-1 >>> (61 - until));
    if (high !== 0) return 61 - Math.clz32(high);
  }
  const low = until < 30 ? fields.minutesLow & (-1 >>> (31 - until)) : fields.minutesLow;
  return low === 0 ? -1 : 31 - Math.clz32(low);
}

/** How many matching minutes of a day lie before `minute` (0 to 1440). */
function minutesBefore(fields: CronFields, minute: number): number {
  const hour = Math.floor(minute / 60);
  const past = minute - hour * 60;
  const perHour = ones(fields.minutesLow) + ones(fields.minutesHigh);
  const whole = ones(fields.hours & ((1 << hour) - 1)) * perHour;
  if (past === 0 || (fields.hours & (1 << hour)) === 0) return whole;
  return (
    whole +
    ones(past < 30 ? fields.minutesLow & ((1 << past) - 1) : fields.minutesLow) +
    (past > 30 ? ones(fields.minutesHigh & ((1 << (past - 30)) - 1)) : 0)
  );
}

/** Months since year 0 of the proleptic Gregorian calendar, of a day number since 1970-01-01. */
function monthOf(day: number): number {
  // An estimate that is never more than one off, then set right.
  let month = 1970 * 12 + Math.floor(day / 30.436875);
  if (daysBefore(month) > day) month -= 1;
  else if (daysBefore(month + 1) <= day) month += 1;
  return month;
}

/** Days from 1970-01-01 to the 1st of a month; years begin in March so that leap days end them. */
function daysBefore(month: number): number {
  const sinceMarch = month - 2;
  const year = Math.floor(sinceMarch / 12);
  const monthOfYear = sinceMarch - year * 12;
  const leapDays = Math.floor(year / 4) - Math.floor(year / 100) + Math.floor(year / 400);
  return year * 365 + leapDays + Math.floor((153 * monthOfYear + 2) / 5) - 719_468;
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}

function lowest(set: number): number {
  return 31 - Math.clz32(set & -set);
}

function ones(set: number): number {
  let v = set - ((set >>> 1) & 0x55555555);
  v = (v & 0x33333333) + ((v >>> 2) & 0x33333333);
  return Math.imul((v + (v >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
