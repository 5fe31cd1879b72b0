import { describe, expect, test } from "vitest";
import { MAX_CRON_LENGTH, readCronText } from "../../../../src/domain/cron/grammar.ts";

interface Accepted {
  name: string;
  expression: string;
  fields: string;
  followsElapsedTime?: boolean;
  eitherDay?: boolean;
}

const accepted: readonly Accepted[] = [
  { name: "numbers", expression: "0 3 1 6 *", fields: "0 3 1 6 *" },
  { name: "leading zero", expression: "05 03 * * *", fields: "5 3 * * *" },
  { name: "repeated spaces", expression: "0  3 *   * *", fields: "0 3 * * *" },
  { name: "as long as may be", expression: `${"0,".repeat(123)}00 3 * * *`, fields: "0 3 * * *" },
  { name: "range", expression: "0 9-11 * * *", fields: "0 9,10,11 * * *" },
  { name: "range with step", expression: "10-40/15 3 * * *", fields: "10,25,40 3 * * *" },
  {
    name: "value with step runs to the end",
    expression: "5/20 3 * * *",
    fields: "5,25,45 3 * * *",
  },
  {
    name: "weekday with step ends on Saturday",
    expression: "0 3 * * 1/2",
    fields: "0 3 * * 1,3,5",
  },
  { name: "list in any order", expression: "30,0 3 * * *", fields: "0,30 3 * * *" },
  { name: "value named twice", expression: "5,5,0-5 3 * * *", fields: "0,1,2,3,4,5 3 * * *" },
  {
    name: "month names in any case",
    expression: "0 3 * jan-Mar,DEC *",
    fields: "0 3 * 1,2,3,12 *",
  },
  { name: "weekday names", expression: "0 3 * * MON-fri", fields: "0 3 * * 1,2,3,4,5" },
  { name: "name and number in a range", expression: "0 3 * * MON-3", fields: "0 3 * * 1,2,3" },
  { name: "7 is Sunday", expression: "0 3 * * 7", fields: "0 3 * * 0" },
  { name: "range up to 7", expression: "0 3 * * 5-7", fields: "0 3 * * 0,5,6" },
  { name: "Sunday both ways", expression: "0 3 * * 0,7", fields: "0 3 * * 0" },
  {
    name: "star in the minute",
    expression: "* 3 * * *",
    fields: "* 3 * * *",
    followsElapsedTime: true,
  },
  {
    name: "stepped star in the hour",
    expression: "0 */2 * * *",
    fields: "0 */2 * * *",
    followsElapsedTime: true,
  },
  {
    name: "list that starts with a star",
    expression: "*/30,7 3 * * *",
    fields: "0,7,30 3 * * *",
    followsElapsedTime: true,
  },
  {
    name: "full range is no star",
    expression: "0-59/30 0-23/12 * * *",
    fields: "0,30 0,12 * * *",
  },
  { name: "both days", expression: "0 3 13 * FRI", fields: "0 3 13 * 5", eitherDay: true },
  {
    name: "stepped star restricts the day",
    expression: "0 3 */10 * 1",
    fields: "0 3 */10 * 1",
    eitherDay: true,
  },
  {
    name: "stepped star restricts the weekday",
    expression: "0 3 13 * */2",
    fields: "0 3 13 * */2",
    eitherDay: true,
  },
  { name: "29 February occurs", expression: "0 0 29 2 *", fields: "0 0 29 2 *" },
  { name: "31 in some of the months", expression: "0 0 31 2,3 *", fields: "0 0 31 2,3 *" },
  {
    name: "a day that never occurs, or a weekday",
    expression: "0 0 30 2 MON",
    fields: "0 0 30 2 1",
    eitherDay: true,
  },
  { name: "@yearly", expression: "@yearly", fields: "0 0 1 1 *" },
  { name: "@annually", expression: "@annually", fields: "0 0 1 1 *" },
  { name: "@monthly", expression: "@monthly", fields: "0 0 1 * *" },
  { name: "@weekly", expression: "@weekly", fields: "0 0 * * 0" },
  { name: "@daily", expression: "@daily", fields: "0 0 * * *" },
  { name: "@midnight", expression: "@midnight", fields: "0 0 * * *" },
  { name: "@hourly", expression: "@hourly", fields: "0 * * * *", followsElapsedTime: true },
];

describe("accepts", () => {
  test.each(accepted)("$name: $expression", (row) => {
    expect(readCronText(row.expression)).toEqual({
      ok: true,
      cron: {
        fields: row.fields.split(" "),
        followsElapsedTime: row.followsElapsedTime ?? false,
        eitherDay: row.eitherDay ?? false,
      },
    });
  });
});

/** `says`: what the message must contain. */
const refused: readonly { name: string; expression: string; says: string }[] = [
  { name: "empty", expression: "", says: "must not be empty" },
  { name: "one field", expression: "*", says: "has 1 field instead of five" },
  { name: "three fields", expression: "0 0 *", says: "has 3 fields" },
  { name: "four fields", expression: "0 0 * *", says: "write all five" },
  { name: "seconds", expression: "0 0 3 * * *", says: "seconds and years are not supported" },
  { name: "seconds and year", expression: "0 0 3 * * * 2030", says: "seconds and years" },
  { name: "eight fields", expression: "0 0 3 * * * * *", says: "has 8 fields" },
  { name: "only spaces", expression: "     ", says: "begin or end with a space" },
  { name: "leading space", expression: " 0 3 * * *", says: "begin or end with a space" },
  { name: "trailing space", expression: "0 3 * * * ", says: "begin or end with a space" },
  { name: "tab", expression: "0\t3 * * *", says: "U+0009: separate the fields with plain spaces" },
  { name: "no-break space", expression: "0\u00a03 * * *", says: "U+00A0" },
  { name: "newline inside", expression: "0 3\n* * *", says: "U+000A" },
  { name: "newline at the end", expression: "0 3 * * *\n", says: "U+000A" },
  { name: "line separator", expression: "0\u20283 * * *", says: "U+2028" },
  { name: "zero-width space", expression: "0 3 * * *\u200b", says: "U+200B" },
  { name: "NUL", expression: "0 3 * * *\0", says: "U+0000" },
  { name: "full-width digit", expression: "\uff10 3 * * *", says: "U+FF10" },
  { name: "emoji", expression: "0 3 * * 🕒", says: "U+1F552" },
  {
    name: "too long",
    expression: `${"0,".repeat(124)}0 3 * * *`,
    says: `at most ${MAX_CRON_LENGTH} characters`,
  },
  { name: "L in day-of-month", expression: "0 0 L * *", says: '"L" is not supported' },
  { name: "L-3", expression: "0 0 L-3 * *", says: '"L" is not supported' },
  { name: "LW", expression: "0 0 LW * *", says: '"LW" is not supported' },
  { name: "15W", expression: "0 0 15W * *", says: '"W" is not supported' },
  { name: "5L", expression: "0 0 * * 5L", says: '"L" is not supported' },
  { name: "FRIL", expression: "0 0 * * FRIL", says: "day-of-week" },
  { name: "1#2", expression: "0 0 * * 1#2", says: '"#" is not supported' },
  { name: "MON#1", expression: "0 0 * * MON#1", says: '"#" is not supported' },
  { name: "?", expression: "0 0 ? * *", says: "write * instead" },
  { name: "H", expression: "H 3 * * *", says: '"H" is not supported' },
  { name: "H/15", expression: "H/15 * * * *", says: '"H" is not supported' },
  { name: "H(0-29)", expression: "H(0-29) 3 * * *", says: '"H" is not supported' },
  { name: "minute 60", expression: "60 3 * * *", says: "write a number from 0 to 59" },
  { name: "hour 24", expression: "0 24 * * *", says: "from 0 to 23" },
  { name: "day 0", expression: "0 0 0 * *", says: "from 1 to 31" },
  { name: "day 32", expression: "0 0 32 * *", says: "from 1 to 31" },
  { name: "month 0", expression: "0 0 1 0 *", says: "from 1 to 12" },
  { name: "month 13", expression: "0 0 1 13 *", says: "from 1 to 12" },
  { name: "weekday 8", expression: "0 0 * * 8", says: "from 0 to 7" },
  { name: "three digits", expression: "000 3 * * *", says: "out of range" },
  { name: "negative", expression: "-1 3 * * *", says: "is not understood" },
  { name: "fraction", expression: "1.5 3 * * *", says: "is not understood" },
  { name: "hexadecimal", expression: "0x1 3 * * *", says: "is not understood" },
  { name: "exponent", expression: "1e1 3 * * *", says: "is not understood" },
  { name: "step 0", expression: "*/0 * * * *", says: "between 1 and 59" },
  { name: "step past the field", expression: "*/60 * * * *", says: "again in every hour" },
  { name: "every 90 minutes", expression: "*/90 * * * *", says: "again in every hour" },
  { name: "hour step 24", expression: "0 */24 * * *", says: "between 1 and 23" },
  { name: "huge step", expression: "*/99999999999 * * * *", says: "between 1 and 59" },
  { name: "step without number", expression: "*/ * * * *", says: "is not understood" },
  { name: "two steps", expression: "*/2/3 * * * *", says: "is not understood" },
  { name: "step alone", expression: "/5 * * * *", says: "is not understood" },
  { name: "backward hours", expression: "0 22-2 * * *", says: "write 22-23,0-2" },
  { name: "backward weekdays", expression: "0 0 * * FRI-SUN", says: "write 5-6,0" },
  { name: "backward hours with a step", expression: "0 22-6/3 * * *", says: "write 22,1,4" },
  { name: "backward step 1", expression: "0 22-6/1 * * *", says: "write 22-23,0-6" },
  { name: "backward, bad step", expression: "0 22-6/24 * * *", says: "between 1 and 23" },
  { name: "from Sunday as 7", expression: "0 0 * * 7-4", says: "write 0-4" },
  { name: "from Sunday as 7 to 0", expression: "0 0 * * 7-0", says: "write 0" },
  { name: "from Sunday as 7, with a step", expression: "0 0 * * 7-4/2", says: "write 0,2,4" },
  { name: "open range", expression: "5- 3 * * *", says: "is not understood" },
  { name: "double range", expression: "1-2-3 3 * * *", says: "is not understood" },
  { name: "empty list item", expression: "1,,2 3 * * *", says: "remove the comma" },
  { name: "list ends in a comma", expression: "1, 3 * * *", says: "remove the comma" },
  { name: "star in a list", expression: "*,5 3 * * *", says: "write * alone" },
  { name: "double star", expression: "** 3 * * *", says: "is not understood" },
  { name: "star range", expression: "*-5 3 * * *", says: "is not understood" },
  { name: "unknown month", expression: "0 0 1 FOO *", says: "use JAN, FEB" },
  { name: "long month name", expression: "0 0 1 JANUARY *", says: "use JAN, FEB" },
  { name: "weekday as a month", expression: "0 0 1 MON *", says: "use JAN, FEB" },
  { name: "name in the hour", expression: "0 MON * * *", says: "is not a number" },
  { name: "weekday 7 with step", expression: "0 0 * * 7/2", says: "write 0 for Sunday" },
  { name: "30 February", expression: "0 0 30 2 *", says: "never occurs" },
  { name: "31 February by name", expression: "0 0 31 FEB *", says: "never occurs" },
  { name: "31st of short months", expression: "0 0 31 4,6,9,11 *", says: "never occurs" },
  { name: "30-31 February", expression: "0 0 30-31 2 *", says: "never occurs" },
  { name: "@reboot", expression: "@reboot", says: "is not a known macro" },
  { name: "@every", expression: "@every 5m", says: "is not a known macro" },
  { name: "@Daily", expression: "@Daily", says: "is not a known macro" },
  { name: "@minutely", expression: "@minutely", says: "is not a known macro" },
  { name: "macro and fields", expression: "@daily * * * *", says: "is not a known macro" },
  { name: "a property of objects", expression: "@constructor", says: "is not a known macro" },
  { name: "another one", expression: "constructor", says: "has 1 field instead of five" },
  { name: "and their prototype", expression: "__proto__", says: "has 1 field instead of five" },
  { name: "TZ=", expression: "TZ=UTC 0 3 * * *", says: "set the job's time zone" },
  { name: "CRON_TZ=", expression: "CRON_TZ=UTC 0 3 * * *", says: "set the job's time zone" },
];

describe("refuses, and says what to do", () => {
  test.each(refused)("$name", ({ expression, says }) => {
    const result = readCronText(expression);
    expect(result.ok ? "accepted" : result.message).toContain(says);
  });

  /** `size`: distinct values. */
  const fields = [
    { name: "minute", index: 0, min: 0, max: 59, size: 60 },
    { name: "day-of-month", index: 2, min: 1, max: 31, size: 31 },
    { name: "day-of-week", index: 4, min: 0, max: 7, size: 7 },
  ];

  test.each(fields)(
    "a backward range of $name: what to write instead is accepted and means the same",
    (field) => {
      const { index, min, max, size } = field;
      const read = (text: string) =>
        readCronText(["*", "*", "*", "*", "*"].with(index, text).join(" "));
      for (let low = min + 1; low <= max; low += 1)
        for (let high = min; high < low; high += 1)
          for (const step of [1, 2, 5]) {
            const refusal = read(`${low}-${high}/${step}`);
            const advice = refusal.ok ? "" : refusal.message.replace(/^.* write /, "");
            const meant = new Set<number>();
            for (let value = low; value <= high + size; value += step)
              meant.add(min + ((value - min) % size));
            const accepted = read(advice);
            expect({ advice, values: accepted.ok && accepted.cron.fields[index] }).toEqual({
              advice,
              values: [...meant].sort((a, b) => a - b).join(","),
            });
          }
    },
  );

  test("a hostile text is not repeated at length", () => {
    const result = readCronText(`${"x".repeat(200)} * * * *`);
    expect(result.ok ? "" : result.message.length).toBeLessThan(200);
  });
});
