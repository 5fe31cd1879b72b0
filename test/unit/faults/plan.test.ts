import { expect, test } from "vitest";
import { createPlan } from "../../faults/plan.ts";

const SIZE = { seconds: 60, jobs: 300 };

test("a seed is a round: the same one gives the same jobs and faults", () => {
  expect(createPlan({ seed: 7, ...SIZE })).toEqual(createPlan({ seed: 7, ...SIZE }));
  expect(createPlan({ seed: 7, ...SIZE }).faults).not.toEqual(
    createPlan({ seed: 8, ...SIZE }).faults,
  );
});

test("twenty seeds commit every kind of fault, and ask for every kind of change", () => {
  const plans = Array.from({ length: 20 }, (_, seed) => createPlan({ seed, ...SIZE }));
  const faults = new Set(plans.flatMap((plan) => plan.faults.map(({ kind }) => kind)));
  expect([...faults].sort()).toEqual([
    "clock-jump",
    "cut",
    "database-restart",
    "hang",
    "kill",
    "read-only",
    "receiver",
    "slow",
    "stall",
    "terminate",
  ]);
  const changes = new Set(
    plans.flatMap((plan) => plan.jobs.flatMap((job) => job.changes.map(({ kind }) => kind))),
  );
  expect([...changes].sort()).toEqual(["delete", "move", "pause", "resume"]);
});

test("a change follows the creation, and fire times are whole seconds within the round", () => {
  for (const job of createPlan({ seed: 3, ...SIZE }).jobs) {
    let last = job.createAt;
    for (const change of job.changes) {
      expect(change.at).toBeGreaterThan(last);
      last = change.at;
    }
    const runAt = job.schedule.kind === "once" ? job.schedule.runAt : SIZE.seconds;
    expect(runAt % 1).toBe(0);
    expect(runAt).toBeGreaterThan(job.createAt);
    expect(runAt).toBeLessThanOrEqual(SIZE.seconds);
  }
});
