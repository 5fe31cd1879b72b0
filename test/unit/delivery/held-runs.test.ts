import { expect, test } from "vitest";
import { createHeldRuns, deliveryLimits } from "../../../src/delivery/held-runs.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

function held() {
  return createHeldRuns(deliveryLimits({ concurrency: 4, perAccount: 4, perDestination: 1 }));
}

const run = (id: string, claimToken: string): ClaimedRun => claimedRun({}, { id, claimToken });

test("a run that was taken over and claimed again waits once, by its new claim", () => {
  const runs = held();
  runs.add([run("a", "old"), run("b", "old")]);
  runs.add([run("a", "new")]);
  expect(runs.waiting).toBe(2);
  expect(runs.takeAll().map(({ id, claimToken }) => `${id} ${claimToken}`)).toEqual([
    "b old",
    "a new",
  ]);
});

test("a run whose claim was lost waits no more, and holds nothing up", () => {
  const runs = held();
  runs.add([run("a", "token"), run("b", "token")]);
  const [started] = runs.takeReady(0);
  runs.forget("b");
  expect(runs.waiting).toBe(0);
  runs.add([run("c", "token")]);
  expect(runs.takeReady(0)).toEqual([]);
  if (started) runs.finished(started);
  expect(runs.takeReady(0).map(({ id }) => id)).toEqual(["c"]);
});
