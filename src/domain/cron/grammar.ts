/**
 * The cron grammar that Carillon accepts, checked before any library sees the text. It is the crontab
 * of Vixie cron without its silent surprises: whatever is refused here would otherwise be guessed at.
 * The source of the rules is docs/decisions/0003-cron-parser-parses-we-step.md.
 */
import { quoted } from "../findings.ts";

/** Longest accepted expression, in characters. */
export const MAX_CRON_LENGTH = 256;

const MACROS: ReadonlyMap<string, string> = new Map([
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
  ["@monthly", "0 0 1 * *"],
  ["@weekly", "0 0 * * 0"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@hourly", "0 * * * *"],
]);

export const CRON_MACROS: readonly string[] = [...MACROS.keys()];

interface FieldRule {
  name: string;
  min: number;
  /** The largest number that may be written. */
  max: number;
  /** The last distinct value: 6 for day-of-week, where 7 is Sunday once more. */
  last: number;
  names: readonly string[];
}

const FIELDS: readonly FieldRule[] = [
  { name: "minute", min: 0, max: 59, last: 59, names: [] },
  { name: "hour", min: 0, max: 23, last: 23, names: [] },
  { name: "day-of-month", min: 1, max: 31, last: 31, names: [] },
  {
    name: "month",
    min: 1,
    max: 12,
    last: 12,
    names: ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
  },
  {
    name: "day-of-week",
    min: 0,
    max: 7,
    last: 6,
    names: ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
  },
];

/** The longest each month can be, January first. */
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

/** An accepted expression, reduced to what every cron library understands alike. */
export interface CronText {
  /** Minute, hour, day-of-month, month, day-of-week: numbers only, no value named twice. */
  fields: readonly string[];
  /** The minute or the hour field starts with `*`: the job follows elapsed time (Vixie's rule). */
  followsElapsedTime: boolean;
  /** Day-of-month and day-of-week are both something else than `*`: a day matches when either does. */
  eitherDay: boolean;
}

export type CronTextResult = { ok: true; cron: CronText } | { ok: false; message: string };

/**
 * Accepts five fields separated by plain spaces (numbers, names, ranges, lists, steps) or one of the
 * macros; refuses everything else with a message that says what to write instead.
 */
export function readCronText(expression: string): CronTextResult {
  const misshapen = refuseShape(expression);
  if (misshapen !== null) return { ok: false, message: misshapen };
  const words = (MACROS.get(expression) ?? expression).split(/ +/);
  const miscounted = refuseCount(words);
  if (miscounted !== null) return { ok: false, message: miscounted };

  const fields: Field[] = [];
  for (const [i, rule] of FIELDS.entries()) {
    const field = readField(words[i] ?? "", rule);
    if (typeof field === "string") return { ok: false, message: field };
    fields.push(field);
  }
  const [minute, hour, dayOfMonth, month, dayOfWeek] = fields;
  if (!minute || !hour || !dayOfMonth || !month || !dayOfWeek)
    throw new Error("a cron expression has five fields");
  const eitherDay = dayOfMonth.raw !== "*" && dayOfWeek.raw !== "*";
  if (!eitherDay && neverOccurs(dayOfMonth.values, month.values))
    return {
      ok: false,
      message: `day-of-month ${dayOfMonth.raw} never occurs in month ${month.raw}, so the job would never fire: choose a day that the month has`,
    };
  return {
    ok: true,
    cron: {
      fields: fields.map((field) => field.text),
      followsElapsedTime: minute.raw.startsWith("*") || hour.raw.startsWith("*"),
      eitherDay,
    },
  };
}

interface Field {
  raw: string;
  text: string;
  values: ReadonlySet<number>;
}

function refuseShape(expression: string): string | null {
  if (expression === "")
    return "must not be empty: write five fields (minute, hour, day-of-month, month, day-of-week), such as 0 3 * * *";
  if (expression.length > MAX_CRON_LENGTH)
    return `must be at most ${MAX_CRON_LENGTH} characters long`;
  const odd = /[^\x20-\x7e]/u.exec(expression)?.[0];
  if (odd !== undefined) {
    const code = (odd.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return /\s/u.test(odd)
      ? `contains the white space character U+${code}: separate the fields with plain spaces`
      : `contains the character U+${code}: use digits, names, and * , - / only`;
  }
  if (expression.startsWith(" ") || expression.endsWith(" "))
    return "must not begin or end with a space: remove it";
  if (/^(?:CRON_)?TZ=/i.test(expression))
    return "must not name a time zone: set the job's time zone instead";
  if (expression.startsWith("@") && !MACROS.has(expression))
    return `${quoted(expression)} is not a known macro: use one of ${CRON_MACROS.join(", ")}, or five fields`;
  return null;
}

function refuseCount(words: readonly string[]): string | null {
  if (words.length === FIELDS.length) return null;
  const count = `has ${words.length} field${words.length === 1 ? "" : "s"} instead of five (minute, hour, day-of-month, month, day-of-week)`;
  return words.length === 6 || words.length === 7
    ? `${count}: seconds and years are not supported, remove them`
    : `${count}: write all five, such as 0 3 * * *`;
}

function readField(raw: string, rule: FieldRule): Field | string {
  const items = raw.split(",");
  const values = new Set<number>();
  for (const item of items) {
    const range = readItem(item, rule);
    if (typeof range === "string") return range;
    if (item === "*" && items.length > 1)
      return `${rule.name}: * already stands for every value: write * alone, or leave it out of the list`;
    for (let value = range.from; value <= range.to; value += range.step)
      values.add(value > rule.last ? rule.min : value);
  }
  // A list may name a value twice (0,7 or */15,30), which the parser behind refuses; n/step and
  // ranges up to 7 are spelled differently by different libraries. Only * and */n pass as written.
  const text = /^\*(?:\/\d+)?$/.test(raw) ? raw : [...values].sort((a, b) => a - b).join(",");
  return { raw, text, values };
}

const ITEM = /^(?:(\*)|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:\/([0-9]+))?$/i;

/** One item of a list as from, to (both included) and step; a string is the refusal. */
function readItem(
  item: string,
  rule: FieldRule,
): { from: number; to: number; step: number } | string {
  const special = /[LW#?]|^H/i.exec(item.replaceAll(/[a-z]{3}/gi, ""))?.[0];
  const match = ITEM.exec(item);
  if (!match) {
    if (item === "")
      return `${rule.name}: has an empty list item: remove the comma, or write a value beside it`;
    if (special !== undefined) return refuseSpecial(special, rule);
    return `${rule.name}: ${quoted(item)} is not understood: write a value, a range such as ${rule.min}-${rule.last}, or a step such as */2`;
  }
  const [, star, first, second, stepText] = match;
  const step = stepText === undefined ? 1 : Number(stepText);
  const widest = rule.last - rule.min;
  if (step < 1 || step > widest)
    return `${rule.name}: a step must be between 1 and ${widest}, not ${quoted(stepText ?? "")}; steps start again in every ${unitAbove(rule)}`;
  let from = rule.min;
  let to = rule.last;
  if (star === undefined) {
    const low = readValue(first ?? "", rule);
    if (typeof low === "string") return low;
    from = low;
    if (second !== undefined) {
      const high = readValue(second, rule);
      if (typeof high === "string") return high;
      if (high < low) return refuseBackwards(item, { low, high, step }, rule);
      to = high;
    } else if (stepText === undefined) to = low;
    else if (low > rule.last)
      return `${rule.name}: ${quoted(item)} starts after the last value: write 0 for Sunday`;
  }
  return { from, to, step };
}

function readValue(text: string, rule: FieldRule): number | string {
  if (/^[0-9]+$/.test(text)) {
    const value = Number(text);
    if (text.length <= 2 && value >= rule.min && value <= rule.max) return value;
    return `${rule.name}: ${quoted(text)} is out of range: write a number from ${rule.min} to ${rule.max}`;
  }
  const index = rule.names.indexOf(text.toUpperCase());
  if (index >= 0) return index + rule.min;
  if (/^[LWH]+$/i.test(text)) return refuseSpecial(text, rule);
  return rule.names.length > 0
    ? `${rule.name}: ${quoted(text)} is not a known name: use ${rule.names.join(", ")}, or numbers`
    : `${rule.name}: ${quoted(text)} is not a number: write a number from ${rule.min} to ${rule.max}`;
}

function refuseSpecial(special: string, rule: FieldRule): string {
  const advice = special === "?" ? "write * instead" : "write the values out";
  return `${rule.name}: ${quoted(special)} is not supported (nor are L, W, #, ? and H): ${advice}`;
}

/** What to write instead means what the author may have meant: the range, and its steps, go on over the field's end. */
function refuseBackwards(
  item: string,
  { low, high, step }: { low: number; high: number; step: number },
  rule: FieldRule,
): string {
  const { min, last } = rule;
  // A range that begins with Sunday as 7 begins with 0, and goes over no end.
  const parts = low > last ? [span(min, high)] : [span(low, last), span(min, high)];
  const size = last - min + 1;
  const values: number[] = [];
  for (let value = low; value <= high + size; value += step)
    values.push(min + ((value - min) % size));
  return `${rule.name}: the range ${quoted(item)} runs backwards: write ${(step === 1 ? parts : values).join(",")}`;
}

function span(from: number, to: number): string {
  return from === to ? `${from}` : `${from}-${to}`;
}

function neverOccurs(days: ReadonlySet<number>, months: ReadonlySet<number>): boolean {
  const firstDay = Math.min(...days);
  return [...months].every((month) => firstDay > (LONGEST[month - 1] ?? 0));
}

function unitAbove(rule: FieldRule): string {
  if (rule.name === "minute") return "hour";
  if (rule.name === "hour") return "day";
  if (rule.name === "day-of-month") return "month";
  return rule.name === "month" ? "year" : "week";
}
