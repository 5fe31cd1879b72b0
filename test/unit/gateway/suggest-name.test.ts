import { expect, test } from "vitest";
import { suggestName } from "../../../src/gateway/suggest-name.ts";

const known = [
  "name",
  "type",
  "schedule_type",
  "cron_expression",
  "webhook_url",
  "webhook_payload",
];

const cases = [
  { unknown: "scheduleType", says: "did you mean schedule_type?" },
  { unknown: "SCHEDULE-TYPE", says: "did you mean schedule_type?" },
  { unknown: "url", says: "did you mean webhook_url?" },
  { unknown: "cron", says: "did you mean cron_expression?" },
  { unknown: "webook_url", says: "did you mean webhook_url?" },
  { unknown: "nmae", says: `known are ${known.join(", ")}` },
  { unknown: "names", says: "did you mean name?" },
  // Two names contain it.
  { unknown: "webhook", says: `known are ${known.join(", ")}` },
  { unknown: "", says: `known are ${known.join(", ")}` },
  { unknown: "x".repeat(100_000), says: `known are ${known.join(", ")}` },
];
test.each(cases)("$unknown: $says", ({ unknown, says }) => {
  expect(suggestName(unknown, known)).toBe(says);
});

test("no more than a dozen names, and none where none is taken", () => {
  const many = Array.from({ length: 30 }, (_, index) => `field_number_${index}`);
  expect(suggestName("z", many)).toBe(`known are ${many.slice(0, 12).join(", ")} and more`);
  expect(suggestName("page", ["to"])).toBe("known is to");
  expect(suggestName("page", [])).toBe("there are none here");
});
