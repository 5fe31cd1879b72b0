import { expect, test } from "vitest";
import { hearServerClock, serverNow } from "../../../src/dashboard/src/server-clock.ts";

const NOW = Date.parse("2026-11-22T12:00:00.900Z");

test.each([
  { what: "the same", date: "Sun, 22 Nov 2026 12:00:00 GMT", aheadMs: 0 },
  { what: "a slow answer", date: "Sun, 22 Nov 2026 11:59:52 GMT", aheadMs: 0 },
  { what: "two hours ahead", date: "Sun, 22 Nov 2026 14:00:00 GMT", aheadMs: 7_199_100 },
  { what: "two hours behind", date: "Sun, 22 Nov 2026 10:00:00 GMT", aheadMs: -7_200_900 },
])("the server's clock: $what", ({ date, aheadMs }) => {
  hearServerClock(date, NOW, NOW);
  expect(serverNow(NOW)).toBe(NOW + aheadMs);
});

test.each([null, "", "yesterday"])("a date that is none (%s) changes nothing", (date) => {
  hearServerClock("Sun, 22 Nov 2026 14:00:00 GMT", NOW, NOW);
  hearServerClock(date, NOW, NOW);
  expect(serverNow(NOW)).toBe(NOW + 7_199_100);
});

test("an answer that was long under way changes nothing", () => {
  hearServerClock("Sun, 22 Nov 2026 14:00:00 GMT", NOW, NOW);
  hearServerClock("Sun, 22 Nov 2026 11:55:00 GMT", NOW - 300_000, NOW);
  expect(serverNow(NOW)).toBe(NOW + 7_199_100);
});
