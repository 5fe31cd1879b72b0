/**
 * Random expressions whose meaning is known: the generator draws the sets of values and writes the text from them, so
 * that a test can compare with what is meant, without a parser.
 */
export interface RandomCron {
  text: string;
  minutes: ReadonlySet<number>;
  hours: ReadonlySet<number>;
  daysOfMonth: ReadonlySet<number>;
  months: ReadonlySet<number>;
  daysOfWeek: ReadonlySet<number>;
  eitherDay: boolean;
  followsElapsedTime: boolean;
}

export function pick<T>(random: () => number, from: readonly T[]): T {
  const item = from[Math.floor(random() * from.length)];
  if (item === undefined) throw new Error("nothing to pick from");
  return item;
}

export function between(random: () => number, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

interface Field {
  text: string;
  values: Set<number>;
}

const MONTHS = "jan FEB Mar apr MAY jun JUL aug Sep oct NOV dec".split(" ");
const WEEKDAYS = "Sun MON tue WED thu FRI sat".split(" ");

/** `stars`: the probability that a day field is a plain `*`. */
export function randomCron(random: () => number, stars = 0.6): RandomCron {
  const minute = field(random, { min: 0, max: 59, star: 0.15, names: [] });
  const hour = field(random, { min: 0, max: 23, star: 0.25, names: [] });
  const dayOfMonth = field(random, { min: 1, max: 31, star: stars, names: [] });
  const month = field(random, { min: 1, max: 12, star: 0.8, names: MONTHS });
  const dayOfWeek = field(random, { min: 0, max: 6, star: stars, names: WEEKDAYS });
  return {
    text: [minute, hour, dayOfMonth, month, dayOfWeek].map(({ text }) => text).join(" "),
    minutes: minute.values,
    hours: hour.values,
    daysOfMonth: dayOfMonth.values,
    months: month.values,
    daysOfWeek: dayOfWeek.values,
    eitherDay: dayOfMonth.text !== "*" && dayOfWeek.text !== "*",
    followsElapsedTime: minute.text.startsWith("*") || hour.text.startsWith("*"),
  };
}

function field(
  random: () => number,
  rule: { min: number; max: number; star: number; names: readonly string[] },
): Field {
  if (random() < rule.star) return { text: "*", values: stepped(rule.min, rule.max, 1) };
  const count = random() < 0.65 ? 1 : between(random, 2, 3);
  const items = Array.from({ length: count }, () => item(random, rule));
  return {
    text: items.map(({ text }) => text).join(","),
    values: new Set(items.flatMap(({ values }) => [...values])),
  };
}

function item(
  random: () => number,
  { min, max, names }: { min: number; max: number; names: readonly string[] },
): Field {
  const step = between(random, 1, Math.min(max - min, 20));
  const low = between(random, min, max);
  const high = between(random, low, max);
  const write = (value: number): string =>
    names.length > 0 && random() < 0.3
      ? (names[value - min] ?? "")
      : String(value).padStart(random() < 0.1 ? 2 : 1, "0");
  const kind = random();
  if (kind < 0.2) return { text: `*/${step}`, values: stepped(min, max, step) };
  if (kind < 0.55) return { text: write(low), values: new Set([low]) };
  // Not the name: croner reads a range that ends in SUN as one that ends in 7.
  const range = `${write(low)}-${high === 0 ? "0" : write(high)}`;
  if (kind < 0.8) return { text: range, values: stepped(low, high, 1) };
  return { text: `${range}/${step}`, values: stepped(low, high, step) };
}

function stepped(from: number, to: number, by: number): Set<number> {
  const values = new Set<number>();
  for (let value = from; value <= to; value += by) values.add(value);
  return values;
}
