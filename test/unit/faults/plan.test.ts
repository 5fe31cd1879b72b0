import { describe, expect, test } from "vitest";
import { createPlan, TOPOLOGIES } from "../../faults/plan.ts";

const SIZE = { seconds: 36, jobs: 250 };
const STANDALONE = [
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
];
const KINDS = { standalone: STANDALONE, kubernetes: ["api-server", ...STANDALONE] };

describe.each(TOPOLOGIES)("%s", (topology) => {
  const plan = (seed: number) => createPlan({ topology, seed, ...SIZE });
  const twenty = Array.from({ length: 20 }, (_, index) => plan(index + 1));

  test("a seed is a round: the same one gives the same jobs and faults", () => {
    expect(plan(7)).toEqual(plan(7));
    expect(plan(7).faults).not.toEqual(plan(8).faults);
  });

  test("twenty seeds commit every kind of fault, and ask for every kind of change", () => {
    const faults = new Set(twenty.flatMap((each) => each.faults.map(({ kind }) => kind)));
    expect([...faults].sort()).toEqual(KINDS[topology]);
    const changes = new Set(
      twenty.flatMap((each) => each.jobs.flatMap((job) => job.changes.map(({ kind }) => kind))),
    );
    expect([...changes].sort()).toEqual(["delete", "move", "pause", "resume", "run"]);
  });

  test("twenty seeds move jobs of every concurrency policy around a run that takes its time", () => {
    const moved = twenty.flatMap(({ jobs }) => jobs.filter(({ long }) => long));
    const policies = new Set(moved.map(({ concurrencyPolicy }) => concurrencyPolicy));
    expect([...policies].sort()).toEqual(["Allow", "Forbid", "Replace"]);
  });

  test("faults end before the last outage, and one of each round outlasts the leases", () => {
    for (const { faults } of twenty) {
      const lasting = faults.map((fault) => ("seconds" in fault ? fault.seconds : 0));
      for (const [index, fault] of faults.entries())
        expect(fault.at + (lasting[index] ?? 0)).toBeLessThanOrEqual(SIZE.seconds - 5);
      expect(Math.max(...lasting)).toBeGreaterThan(20);
    }
  });

  test("a change follows the creation, and fire times are whole seconds within the round", () => {
    for (const job of plan(3).jobs) {
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
});

test("jobs are applied only where there is an API server", () => {
  const ways = TOPOLOGIES.map((topology) => [
    ...new Set(createPlan({ topology, seed: 1, ...SIZE }).jobs.map(({ via }) => via)),
  ]);
  expect(ways.map((each) => each.sort())).toEqual([["rest"], ["apply", "rest"]]);
});
