import { describe, expect, test } from "vitest";
import { expectedJob, type Operation } from "../../faults/expectations.ts";

const START = Date.UTC(2026, 10, 21, 12);
const at = (seconds: number) => START + seconds * 1_000;
const asked = (seconds: number, answered: number | null = seconds + 0.1) => ({
  sentAt: at(seconds),
  answeredAt: answered === null ? null : at(answered),
});
const create = (runAt: number, seconds = 0, answered?: number | null): Operation => ({
  kind: "create",
  runAt: at(runAt),
  ...asked(seconds, answered),
});

describe("one-time jobs", () => {
  const cases: { name: string; operations: Operation[]; rules: Record<number, string> }[] = [
    { name: "left alone", operations: [create(30)], rules: { 30: "once" } },
    {
      name: "created, but perhaps not",
      operations: [create(30, 0, null)],
      rules: { 30: "optional" },
    },
    {
      name: "deleted in time",
      operations: [create(30), { kind: "delete", ...asked(29, 29.9) }],
      rules: { 30: "never" },
    },
    {
      name: "deleted around its time",
      operations: [create(30), { kind: "delete", ...asked(29, 30.2) }],
      rules: { 30: "optional" },
    },
    {
      name: "deleted long after",
      operations: [create(30), { kind: "delete", ...asked(200) }],
      rules: { 30: "once" },
    },
    {
      name: "paused in time",
      operations: [create(30), { kind: "pause", ...asked(10) }],
      rules: { 30: "never" },
    },
    {
      name: "paused a moment before",
      operations: [create(30), { kind: "pause", ...asked(28) }],
      rules: { 30: "optional" },
    },
    {
      name: "paused and resumed",
      operations: [create(30), { kind: "pause", ...asked(10) }, { kind: "resume", ...asked(40) }],
      rules: { 30: "once" },
    },
    {
      name: "paused, resumed, and moved at the last moment",
      operations: [
        create(30),
        { kind: "pause", ...asked(5) },
        { kind: "resume", ...asked(10) },
        { kind: "move", runAt: at(60), ...asked(29) },
      ],
      rules: { 30: "optional", 60: "once" },
    },
    {
      name: "moved in time",
      operations: [create(30), { kind: "move", runAt: at(60), ...asked(10) }],
      rules: { 30: "never", 60: "once" },
    },
    {
      name: "moved, but perhaps not",
      operations: [create(30), { kind: "move", runAt: at(60), ...asked(10, null) }],
      rules: { 30: "optional", 60: "optional" },
    },
  ];
  test.each(cases)("$name", ({ operations, rules }) => {
    const history = {
      jobId: "job-1",
      maxRetries: 0,
      schedule: { kind: "once" as const },
      operations,
    };
    const { targets } = expectedJob(history, at(1_000));
    expect(
      Object.fromEntries(targets.map((target) => [(target.at - START) / 1_000, target.rule])),
    ).toEqual(rules);
  });
});

test("cron jobs: every boundary after the creation, until the deletion", () => {
  const history = {
    jobId: "job-1",
    maxRetries: 0,
    schedule: { kind: "cron" as const, everyMinutes: 1 },
    operations: [create(0, 59, 61), { kind: "delete" as const, ...asked(290) }],
  };
  const { targets } = expectedJob(history, at(400));
  expect(targets).toEqual([
    { at: at(60), rule: "optional" },
    { at: at(120), rule: "once" },
    { at: at(180), rule: "optional" },
    { at: at(240), rule: "optional" },
    { at: at(300), rule: "never" },
    { at: at(360), rule: "never" },
  ]);
});
