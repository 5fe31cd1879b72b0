import { expect, test } from "vitest";
import { successRate } from "../../../src/dashboard/src/pages/success-rate.ts";

test.each([
  { good: 0, bad: 0, shown: "–" },
  { good: 7, bad: 0, shown: "100 %" },
  { good: 0, bad: 7, shown: "0.0 %" },
  { good: 2, bad: 1, shown: "66.7 %" },
  { good: 9_994, bad: 6, shown: "99.9 %" },
  { good: 9_999, bad: 1, shown: "99.9 %" },
  { good: 1, bad: 9_999, shown: "0.1 %" },
])("$good of them succeeded and $bad failed: $shown", ({ good, bad, shown }) => {
  expect(successRate(good, bad)).toBe(shown);
});
