import { expect, test } from "vitest";
import { cronWords } from "../../../src/dashboard/src/pages/cron-words.ts";

const cases: { expression: string; words: string }[] = [
  { expression: "0 3 * * *", words: "At 03:00, every day" },
  { expression: "@weekly", words: "At 00:00, only on Sunday" },
  { expression: "0 3 13 * *", words: "At 03:00, on day 13 of the month" },
  { expression: "0 3 */1 * *", words: "At 03:00, every day" },
  { expression: "0  3  *  *  1-5", words: "At 03:00, Monday through Friday" },
  { expression: "not cron", words: "" },
  // Both days are restricted: it fires on days that match either.
  { expression: "0 3 13 * 5", words: "" },
  { expression: "0 3 13 * 1-5", words: "" },
  { expression: "0 3 */1 * 1", words: "" },
  { expression: "0 3 */2 * MON", words: "" },
  { expression: "0 3 1 * */1", words: "" },
  { expression: "0 3 1 * 0-6", words: "" },
  { expression: "0  3  13  *  1", words: "" },
  { expression: "0 3  13 * 1", words: "" },
];

test.each(cases)("$expression: $words", async ({ expression, words }) => {
  expect(await cronWords(expression)).toBe(words);
});
