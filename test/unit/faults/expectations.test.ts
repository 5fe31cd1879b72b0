import { describe, expect, test } from "vitest";
import {
  BY_POSTGRES,
  BY_RESOURCE,
  expectedJob,
  type Operation,
} from "../../faults/expectations.ts";

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
      concurrencyPolicy: "Allow" as const,
      schedule: { kind: "once" as const },
      operations,
      takenUpWithin: BY_POSTGRES,
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
    concurrencyPolicy: "Allow" as const,
    schedule: { kind: "cron" as const, everyMinutes: 1 },
    operations: [create(0, 59, 61), { kind: "delete" as const, ...asked(290) }],
    takenUpWithin: BY_POSTGRES,
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

describe("what a leader has to see first", () => {
  const cases: { name: string; runAt: number; operation: Operation; rule: string }[] = [
    {
      name: "a deletion in the API server a moment before",
      runAt: 40,
      operation: { kind: "delete", ...asked(20) },
      rule: "optional",
    },
    {
      name: "a deletion in the API server in good time",
      runAt: 60,
      operation: { kind: "delete", ...asked(20) },
      rule: "never",
    },
    {
      name: "a pause a moment before",
      runAt: 40,
      operation: { kind: "pause", ...asked(20) },
      rule: "optional",
    },
    {
      name: "a pause in good time",
      runAt: 60,
      operation: { kind: "pause", ...asked(20) },
      rule: "never",
    },
  ];
  test.each(cases)("$name", ({ runAt, operation, rule }) => {
    const history = {
      jobId: "job-1",
      maxRetries: 0,
      concurrencyPolicy: "Allow" as const,
      schedule: { kind: "once" as const },
      operations: [create(runAt), operation],
      takenUpWithin: BY_RESOURCE,
    };
    expect(expectedJob(history, at(1_000)).targets).toEqual([{ at: at(runAt), rule }]);
  });
});

describe("a run asked for by hand", () => {
  const cases = [
    { name: "is due when it was answered", answered: 11, rule: "once" },
    { name: "may be there when nobody answered", answered: null, rule: "optional" },
  ];
  test.each(cases)("$name, and changes nothing about the schedule", ({ answered, rule }) => {
    const history = {
      jobId: "job-1",
      maxRetries: 0,
      concurrencyPolicy: "Allow" as const,
      schedule: { kind: "once" as const },
      operations: [create(30), { kind: "run" as const, ...asked(10, answered) }],
      takenUpWithin: BY_POSTGRES,
    };
    expect(expectedJob(history, at(1_000))).toMatchObject({
      targets: [{ at: at(30), rule: "once" }],
      manual: { at: at(10), rule },
    });
  });
});
