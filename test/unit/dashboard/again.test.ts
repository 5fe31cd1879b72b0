import { expect, test } from "vitest";
import { triesAgainAfter, triesAtOnce } from "../../../src/dashboard/src/again.ts";
import { ApiError, UNANSWERED } from "../../../src/dashboard/src/api.ts";

const unreachable = new ApiError(0, {});
const databaseAway = new ApiError(503, { code: "dependency_unavailable" });
const unanswered = new ApiError(0, { code: UNANSWERED });
const refused = new ApiError(404, { code: "not_found" });
/** Of a proxy: it has no code of ours. */
const inBetween = new ApiError(404, {});

const failed = (error: Error, errorUpdateCount = 1) =>
  triesAgainAfter({ state: { status: "error", error, errorUpdateCount } });

test("what has failed is asked for again, less and less often", () => {
  const waits = [1, 2, 3, 4, 5, 2_000].map((failures) => failed(unreachable, failures));
  expect(waits).toEqual([5_000, 10_000, 20_000, 30_000, 30_000, 30_000]);
});

test.each([
  { what: "the server cannot be reached", error: unreachable, atOnce: true, later: 5_000 },
  { what: "a part of it is away", error: databaseAway, atOnce: true, later: 5_000 },
  { what: "no answer came in time", error: unanswered, atOnce: false, later: 5_000 },
  { what: "the gateway refuses", error: refused, atOnce: false, later: false },
  { what: "a proxy has nobody to ask", error: new ApiError(502, {}), atOnce: true, later: 5_000 },
  { what: "a proxy knows no way there", error: inBetween, atOnce: true, later: 5_000 },
])("$what: tried again at once ($atOnce), and later ($later)", ({ error, atOnce, later }) => {
  expect(triesAtOnce(0, error)).toBe(atOnce);
  expect(triesAtOnce(2, error)).toBe(false);
  expect(failed(error)).toBe(later);
});

test.each(["pending", "success"] as const)("nothing is asked again while it is %s", (status) => {
  const state = { status, error: null, errorUpdateCount: 3 };
  expect(triesAgainAfter({ state })).toBe(false);
});
