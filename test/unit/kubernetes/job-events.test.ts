import { expect, test } from "vitest";
import type { Execution } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { statusEvents } from "../../../src/kubernetes/job-events.ts";
import { aCursor, aJob, at } from "../domain/decide-builders.ts";

const NO_ACCOUNT =
  "NoAccount: The namespace is bound to no account; ask the operator to bind it, again if it was deleted and made anew. Nothing runs.";

/** A job without account whose only run failed, as seen by a leader for the first time. */
function firstLook(known: { digest: string; ready?: string }) {
  const job = aJob({ account: null });
  const cursor = aCursor(job);
  const failed: Partial<Execution> = { id: "e-1", status: "failed", executedAt: at("11:00") };
  const { ready } = known;
  const since = "2026-11-23T12:00:00Z";
  return statusEvents({
    job,
    observed: { cursor, timing: timingOf(job.spec), status: "completed" },
    known: {
      namespace: "team",
      name: job.id,
      digest: known.digest,
      transitions: new Map(ready === undefined ? [] : [["Ready", { status: ready, since }]]),
      unready: ready === "False" ? NO_ACCOUNT : "",
    },
    before: undefined,
    history: { last: failed as Execution, lastScheduleTime: null, lastSuccessTime: null },
    circuitOpen: false,
    told: undefined,
    now: at("12:00"),
  }).events.map(({ reason }) => reason);
}

test("of a job without a status all is news", () => {
  expect(firstLook({ digest: "" })).toEqual(["NoAccount", "RunFailed", "Completed"]);
});

test("what a status says, the leader before has told", () => {
  expect(firstLook({ digest: "some", ready: "False" })).toEqual([]);
  expect(firstLook({ digest: "some", ready: "True" })).toEqual(["NoAccount"]);
});
