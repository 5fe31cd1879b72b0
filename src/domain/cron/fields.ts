import { CronExpressionParser, type CronField } from "cron-parser";
import type { CronText } from "./grammar.ts";

/**
 * An expression as bit sets: all that stepping needs, in eight small numbers, because a controller
 * may hold one for each of 100,000 jobs.
 */
export interface CronFields {
  /** Bit i: minute i, for minutes 0 to 29. */
  minutesLow: number;
  /** Bit i: minute 30 + i. */
  minutesHigh: number;
  /** Bit i: hour i. */
  hours: number;
  /** Bit i: day i + 1. Days that none of the months has may be missing. */
  daysOfMonth: number;
  /** Bit i: month i + 1. */
  months: number;
  /** Bit i: weekday i, Sunday is 0. */
  daysOfWeek: number;
  /** A day matches when day-of-month or day-of-week does; otherwise both must. */
  eitherDay: boolean;
  /** Vixie's wildcard jobs: they fire by elapsed time, whatever the wall clock does. */
  followsElapsedTime: boolean;
}

/**
 * The field sets of an expression that the grammar has accepted. cron-parser is asked for nothing
 * else: its stepping is wrong around some time-zone transitions. Throws when it refuses what the
 * grammar accepted, which would be a defect of ours.
 */
export function parseFields(cron: CronText): CronFields {
  const { minute, hour, dayOfMonth, month, dayOfWeek } = CronExpressionParser.parse(
    cron.fields.join(" "),
  ).fields;
  const minutes = valuesOf(minute);
  return {
    minutesLow: bits(minutes.filter((value) => value < 30)),
    minutesHigh: bits(minutes.filter((value) => value >= 30).map((value) => value - 30)),
    hours: bits(valuesOf(hour)),
    daysOfMonth: bits(valuesOf(dayOfMonth).map((value) => value - 1)),
    months: bits(valuesOf(month).map((value) => value - 1)),
    daysOfWeek: bits(valuesOf(dayOfWeek).map((value) => value % 7)),
    eitherDay: cron.eitherDay,
    followsElapsedTime: cron.followsElapsedTime,
  };
}

function valuesOf(field: CronField): number[] {
  return field.values.map((value) => {
    if (typeof value !== "number") throw new Error(`cron-parser read ${value} from plain numbers`);
    return value;
  });
}

function bits(positions: readonly number[]): number {
  return positions.reduce((set, position) => set | (1 << position), 0);
}
