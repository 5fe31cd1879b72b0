import { expect, test } from "vitest";
import { parseFields, type CronFields } from "../../../../src/domain/cron/fields.ts";
import { readCronText } from "../../../../src/domain/cron/grammar.ts";
import { seededRandom } from "../../../faults/seeded-random.ts";
import { randomCron } from "./random-cron.ts";

test("the field sets are those that the author meant, for 5,000 expressions", () => {
  const random = seededRandom(7);
  let read = 0;
  for (let i = 0; i < 5_000; i += 1) {
    const meant = randomCron(random);
    const text = readCronText(meant.text);
    if (!text.ok) continue;
    read += 1;
    const fields = parseFields(text.cron);
    expect({
      text: meant.text,
      minutes: [...positions(fields.minutesLow), ...positions(fields.minutesHigh, 30)],
      hours: positions(fields.hours),
      daysOfMonth: positions(fields.daysOfMonth, 1).filter((day) => day <= longest(meant.months)),
      months: positions(fields.months, 1),
      daysOfWeek: positions(fields.daysOfWeek),
      eitherDay: fields.eitherDay,
      followsElapsedTime: fields.followsElapsedTime,
    }).toEqual({
      ...meant,
      minutes: sorted(meant.minutes),
      hours: sorted(meant.hours),
      // cron-parser leaves out days that none of the months has.
      daysOfMonth: sorted(meant.daysOfMonth).filter((day) => day <= longest(meant.months)),
      months: sorted(meant.months),
      daysOfWeek: sorted(meant.daysOfWeek),
    });
  }
  // The rest never fire (30 February).
  expect(read).toBeGreaterThan(4_500);
});

test("Sunday is one day, whether written 0 or 7", () => {
  expect(parsed("0 0 * * 7").daysOfWeek).toBe(parsed("0 0 * * 0").daysOfWeek);
  expect(parsed("0 0 * * 5-7").daysOfWeek).toBe(parsed("0 0 * * 0,5,6").daysOfWeek);
});

function parsed(expression: string): CronFields {
  const text = readCronText(expression);
  if (!text.ok) throw new Error(text.message);
  return parseFields(text.cron);
}

function positions(set: number, first = 0): number[] {
  return Array.from({ length: 31 }, (_, i) => i)
    .filter((i) => (set & (1 << i)) !== 0)
    .map((i) => i + first);
}

function longest(months: ReadonlySet<number>): number {
  return Math.max(...[...months].map((month) => new Date(Date.UTC(2024, month, 0)).getUTCDate()));
}

function sorted(values: ReadonlySet<number>): number[] {
  return [...values].sort((a, b) => a - b);
}
