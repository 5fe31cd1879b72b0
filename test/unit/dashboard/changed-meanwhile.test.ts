import { expect, test } from "vitest";
import { changedMeanwhile, refusal } from "../../../src/dashboard/src/changed-meanwhile.ts";

test("a field counts as changed by somebody else unless it is as it was seen, or as it is to be saved", () => {
  const [mine, seen] = [
    { a: 1, b: 1, c: 1, d: { x: [1] } },
    { a: 0, b: 0, c: 0, d: { x: [0] }, e: 0 },
  ];
  const now = { a: 0, b: 1, c: 2, d: { x: [2] }, e: 2 };
  expect(changedMeanwhile(mine, seen, now)).toEqual(["c", "d"]);
});

test.each([
  { what: "a text", now: "theirs", said: ", to “theirs”" },
  { what: "a number", now: 0, said: ", to “0”" },
  { what: "no text", now: "", said: ", to nothing" },
  { what: "no value", now: null, said: ", to nothing" },
  { what: "100 characters", now: "🔔".repeat(100), said: `, to “${"🔔".repeat(100)}”` },
  { what: "more than that", now: "🔔".repeat(101), said: `, to “${"🔔".repeat(100)} …”` },
  { what: "headers, which are secret", now: { Authorization: "Bearer s3cr3t" }, said: "" },
  { what: "yes or no", now: true, said: "" },
])("what somebody else has made of a field is said: $what", ({ now, said }) => {
  expect(refusal(["name"], { name: now }).details).toEqual([
    { field: "name", message: `was changed meanwhile${said}. Save again to replace that` },
  ]);
});
