import { expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { decide, dependsOnUnfinished } from "../../../src/domain/decide.ts";
import type { Decision, Standing } from "../../../src/domain/decide.ts";
import { isoUtc } from "../../../src/domain/instant.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { aCursor, aJob, aRun, aSpec, at } from "./decide-builders.ts";

interface Case {
  name: string;
  /** Differences from an active job that fires every ten minutes, created at 00:00. */
  job?: Partial<Omit<Job, "spec">>;
  spec?: Partial<JobSpec>;
  /** Differences from a cursor at 12:00 that knows the job; null: no cursor. */
  cursor?: Partial<Cursor> | null;
  /** The spec that the cursor was decided on, where it differs. */
  before?: Partial<JobSpec>;
  unfinished?: UnfinishedRun[];
  now: string;
  /** Milliseconds that runs are prepared ahead. */
  ahead?: number;
  /** Times of scheduled runs, `manual:key` for others. */
  create?: string[];
  replace?: string[];
  /** `reason first last count`. */
  missed?: string[];
  position?: string;
  once?: Cursor["once"];
  wakeAt?: string | null;
  standing?: Standing;
  changed: boolean;
}

const once = (time: string): Partial<JobSpec> => ({ schedule: { kind: "once", at: at(time) } });
const hourly: Partial<JobSpec> = {
  schedule: { kind: "cron", expression: "0 * * * *", timeZone: "UTC" },
};
const never = { scheduledAt: at("11:00"), id: "old" };

const CASES: Case[] = [
  // A cron job on time.
  { name: "nothing due", now: "12:05", changed: false, wakeAt: "12:10" },
  {
    name: "due now",
    now: "12:10",
    create: ["12:10"],
    position: "12:10",
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "due a moment ago",
    now: "12:10:00.020",
    create: ["12:10"],
    position: "12:10:00.020",
    changed: true,
  },
  { name: "a millisecond early is early", now: "12:09:59.999", wakeAt: "12:10", changed: false },
  {
    name: "the cursor's own time does not fire again",
    now: "12:00",
    wakeAt: "12:10",
    changed: false,
  },
  {
    name: "an invalid expression",
    spec: { schedule: { kind: "cron", expression: "99 * * * *", timeZone: "UTC" } },
    cursor: null,
    now: "12:10",
    standing: "invalid",
    wakeAt: null,
    changed: true,
  },
  {
    name: "an unknown zone",
    spec: { schedule: { kind: "cron", expression: "0 * * * *", timeZone: "Mars/Base" } },
    cursor: null,
    now: "12:10",
    standing: "invalid",
    wakeAt: null,
    changed: true,
  },
  {
    name: "a local time of its zone",
    spec: { schedule: { kind: "cron", expression: "10 13 * * *", timeZone: "Europe/Paris" } },
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },

  // Missed time.
  {
    name: "two due: the latest runs",
    now: "12:21",
    create: ["12:20"],
    missed: ["downtime 12:10 12:10 1"],
    changed: true,
  },
  {
    name: "an hour away: one run, one span",
    now: "13:05",
    create: ["13:00"],
    missed: ["downtime 12:10 12:50 5"],
    changed: true,
  },
  {
    name: "late but within the deadline",
    spec: { startingDeadlineSeconds: 120 },
    now: "12:12",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "beyond the deadline",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:12",
    missed: ["deadline 12:10 12:10 1"],
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "all beyond the deadline",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:35",
    missed: ["deadline 12:10 12:30 3"],
    changed: true,
  },
  {
    name: "older ones beyond the deadline, newer ones down",
    spec: { startingDeadlineSeconds: 900 },
    now: "12:41",
    create: ["12:40"],
    missed: ["deadline 12:10 12:20 2", "downtime 12:30 12:30 1"],
    changed: true,
  },
  {
    name: "exactly at the deadline still runs",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:11",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "deadline zero runs what is due this instant",
    spec: { startingDeadlineSeconds: 0 },
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },

  // No cursor yet.
  {
    name: "created just now",
    job: { createdAt: at("12:04") },
    cursor: null,
    now: "12:04:01",
    wakeAt: "12:10",
    changed: true,
    position: "12:04:01",
  },
  {
    name: "created an instant before its time",
    job: { createdAt: at("12:09:59") },
    cursor: null,
    now: "12:10:01",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "created at its very time: that one is not after creation",
    job: { createdAt: at("12:10") },
    cursor: null,
    now: "12:10:01",
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "its creation lies ahead of our clock",
    job: { createdAt: at("12:10:02") },
    cursor: null,
    now: "12:09:59",
    wakeAt: "12:10",
    position: "12:09:59",
    changed: true,
  },
  {
    name: "seen minutes after its creation: recorded, not run",
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:25",
    missed: ["downtime 12:10 12:20 2"],
    wakeAt: "12:30",
    changed: true,
  },
  {
    name: "an old job whose cursor is lost starts at now",
    cursor: null,
    now: "12:10",
    position: "12:10",
    wakeAt: "12:20",
    changed: true,
  },

  // Edits.
  {
    name: "another schedule: times before the change do not fire",
    spec: hourly,
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    position: "12:11",
    wakeAt: "13:00",
    changed: true,
  },
  {
    name: "another zone moves the cursor too",
    spec: { schedule: { kind: "cron", expression: "*/10 * * * *", timeZone: "Europe/Paris" } },
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    position: "12:11",
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "another payload keeps what is due",
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "another payload and nothing due",
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:05",
    wakeAt: "12:10",
    changed: true,
  },
  {
    name: "a job older than the cursor waits for its newer self",
    job: { generation: 1 },
    cursor: { generation: 2 },
    now: "12:11",
    standing: "stale",
    wakeAt: null,
    changed: false,
  },

  // Pause and resume.
  {
    name: "paused: nothing fires",
    spec: { suspend: true },
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    position: "12:11",
    standing: "suspended",
    wakeAt: null,
    changed: true,
  },
  {
    name: "still paused: no news",
    spec: { suspend: true },
    cursor: { startable: false },
    now: "15:00",
    standing: "suspended",
    wakeAt: null,
    changed: false,
  },
  {
    name: "resumed: what passed meanwhile does not fire",
    before: { suspend: true },
    job: { generation: 3 },
    cursor: { generation: 2, startable: false },
    now: "15:01",
    position: "15:01",
    wakeAt: "15:10",
    changed: true,
  },
  {
    name: "created paused",
    spec: { suspend: true },
    job: { createdAt: at("12:09:59") },
    cursor: null,
    now: "12:10:01",
    standing: "suspended",
    wakeAt: null,
    changed: true,
  },

  // Prepared runs.
  {
    name: "inside the horizon: created ahead",
    now: "12:09:50",
    ahead: 15_000,
    create: ["12:10"],
    position: "12:10",
    wakeAt: "12:19:45",
    changed: true,
  },
  {
    name: "outside the horizon: wake up when it is inside",
    now: "12:09:40",
    ahead: 15_000,
    wakeAt: "12:09:45",
    changed: false,
  },
  {
    name: "prepared is not prepared again",
    cursor: { position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    wakeAt: "12:19:45",
    changed: false,
  },
  {
    name: "one due, one to come",
    now: "12:19:50",
    ahead: 15_000,
    create: ["12:10", "12:20"],
    position: "12:20",
    changed: true,
  },
  {
    name: "another payload: prepared again for the new generation",
    job: { generation: 2 },
    cursor: { generation: 1, position: at("12:10") },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:09:55",
    ahead: 15_000,
    create: ["12:10"],
    position: "12:10",
    changed: true,
  },
  {
    name: "another payload, no horizon: the cursor is set back",
    job: { generation: 2 },
    cursor: { generation: 1, position: at("12:10") },
    now: "12:09:55",
    position: "12:09:55",
    wakeAt: "12:10",
    changed: true,
  },
  {
    name: "paused with a prepared run: the cursor is set back",
    spec: { suspend: true },
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1, position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    position: "12:09:55",
    standing: "suspended",
    changed: true,
  },
  {
    name: "resumed before its time: fires after all",
    before: { suspend: true },
    job: { generation: 3 },
    cursor: { generation: 2, startable: false, position: at("12:09:55") },
    now: "12:09:57",
    ahead: 15_000,
    create: ["12:10"],
    position: "12:10",
    changed: true,
  },
  {
    name: "another schedule with a prepared run",
    spec: hourly,
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1, position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    position: "12:09:55",
    wakeAt: "12:59:45",
    changed: true,
  },
  {
    name: "Forbid is not prepared",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:09:55",
    ahead: 15_000,
    wakeAt: "12:10",
    changed: false,
  },
  {
    name: "Replace is not prepared",
    spec: { concurrencyPolicy: "Replace" },
    now: "12:09:55",
    ahead: 15_000,
    wakeAt: "12:10",
    changed: false,
  },
  {
    name: "account lost with a prepared run",
    job: { account: null },
    cursor: { position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    position: "12:09:55",
    standing: "no-account",
    changed: true,
  },

  // Overlap.
  {
    name: "Allow overlaps",
    unfinished: [aRun({ state: "started" })],
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "Forbid skips while one is started",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ state: "started" })],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "Forbid skips while one is queued",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun()],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    changed: true,
  },
  {
    name: "Forbid skips while one awaits its retry",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ attempts: 2 })],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    changed: true,
  },
  {
    name: "Forbid runs when nothing is unfinished",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "Forbid does not mind a manual run",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ trigger: "manual" })],
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },
  {
    name: "Forbid after downtime: the latest overlaps, the others were down",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun()],
    now: "12:31",
    missed: ["downtime 12:10 12:20 2", "overlap 12:30 12:30 1"],
    changed: true,
  },
  {
    name: "Forbid beyond the deadline: the deadline is the reason",
    spec: { concurrencyPolicy: "Forbid", startingDeadlineSeconds: 10 },
    unfinished: [aRun()],
    now: "12:11",
    missed: ["deadline 12:10 12:10 1"],
    changed: true,
  },
  {
    name: "Replace names every unfinished scheduled run",
    spec: { concurrencyPolicy: "Replace" },
    unfinished: [
      aRun({ id: "a" }),
      aRun({ id: "b", state: "started" }),
      aRun({ id: "m", trigger: "manual" }),
    ],
    now: "12:10",
    create: ["12:10"],
    replace: ["a", "b"],
    changed: true,
  },
  {
    name: "Replace with nothing to replace",
    spec: { concurrencyPolicy: "Replace" },
    now: "12:10",
    create: ["12:10"],
    changed: true,
  },

  // One-time.
  { name: "one-time to come", spec: once("13:00"), now: "12:10", wakeAt: "13:00", changed: false },
  {
    name: "one-time due",
    spec: once("12:10"),
    now: "12:10",
    create: ["12:10"],
    once: "fired",
    wakeAt: null,
    changed: true,
  },
  {
    name: "one-time late rather than never",
    spec: once("12:10"),
    now: "19:10",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "one-time beyond its deadline",
    spec: { ...once("12:10"), startingDeadlineSeconds: 60 },
    now: "12:12",
    missed: ["deadline 12:10 12:10 1"],
    once: "missed",
    changed: true,
  },
  {
    name: "one-time at its deadline",
    spec: { ...once("12:10"), startingDeadlineSeconds: 60 },
    now: "12:11",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "one-time prepared",
    spec: once("12:10"),
    now: "12:09:50",
    ahead: 15_000,
    create: ["12:10"],
    once: "fired",
    position: "12:10",
    wakeAt: null,
    changed: true,
  },
  {
    name: "one-time outside the horizon",
    spec: once("12:10"),
    now: "12:09:40",
    ahead: 15_000,
    once: "armed",
    wakeAt: "12:09:45",
    changed: false,
  },
  {
    name: "one-time fired: nothing more",
    spec: once("12:10"),
    cursor: { once: "fired", position: at("12:10") },
    now: "12:11",
    once: "fired",
    wakeAt: null,
    changed: false,
  },
  {
    name: "one-time completed: another payload changes nothing",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:30",
    once: "completed",
    changed: true,
  },
  {
    name: "one-time completed, paused",
    spec: { ...once("12:10"), suspend: true },
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:30",
    once: "completed",
    changed: true,
    standing: "suspended",
  },
  {
    name: "one-time completed, resumed: not again",
    spec: once("12:10"),
    before: { ...once("12:10"), suspend: true },
    job: { generation: 3 },
    cursor: { generation: 2, once: "completed", startable: false },
    now: "12:40",
    once: "completed",
    changed: true,
  },
  {
    name: "one-time completed, a new time arms it",
    spec: once("13:10"),
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:30",
    once: "armed",
    wakeAt: "13:10",
    changed: true,
  },
  {
    name: "one-time missed, a new time arms it",
    spec: once("13:10"),
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "missed" },
    now: "12:30",
    once: "armed",
    wakeAt: "13:10",
    changed: true,
  },
  {
    name: "one-time paused past its time",
    spec: { ...once("12:10"), suspend: true },
    cursor: { startable: false },
    now: "12:30",
    once: "armed",
    wakeAt: null,
    standing: "suspended",
    changed: false,
  },
  {
    name: "one-time resumed past its time runs",
    spec: once("12:10"),
    before: { ...once("12:10"), suspend: true },
    job: { generation: 3 },
    cursor: { generation: 2, startable: false },
    now: "12:30",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "one-time resumed past its deadline",
    spec: { ...once("12:10"), startingDeadlineSeconds: 60 },
    before: { ...once("12:10"), suspend: true },
    job: { generation: 3 },
    cursor: { generation: 2, startable: false },
    now: "12:30",
    missed: ["deadline 12:10 12:10 1"],
    once: "missed",
    changed: true,
  },
  {
    name: "one-time from a backup",
    spec: once("12:10"),
    job: { createdAt: at("12:12") },
    cursor: null,
    now: "12:12:01",
    missed: ["past_at_creation 12:10 12:10 1"],
    once: "missed",
    changed: true,
  },
  {
    name: "one-time a little before its creation",
    spec: once("12:10"),
    job: { createdAt: at("12:10:30") },
    cursor: null,
    now: "12:10:31",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "one-time first seen minutes late",
    spec: once("12:10"),
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:40",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "old one-time whose cursor is lost",
    spec: once("12:10"),
    cursor: null,
    now: "12:40",
    missed: ["downtime 12:10 12:10 1"],
    once: "missed",
    changed: true,
  },
  {
    name: "old one-time whose cursor is lost, still to come",
    spec: once("13:10"),
    cursor: null,
    now: "12:40",
    once: "armed",
    wakeAt: "13:10",
    changed: true,
  },
  {
    name: "prepared one-time, another payload: created anew",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:09:55",
    ahead: 15_000,
    create: ["12:10"],
    once: "fired",
    position: "12:10",
    changed: true,
  },
  {
    name: "prepared one-time, another time",
    spec: once("13:10"),
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    once: "armed",
    position: "12:09:55",
    wakeAt: "13:09:45",
    changed: true,
  },
  {
    name: "prepared one-time, paused: taken back",
    spec: { ...once("12:10"), suspend: true },
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:09:55",
    ahead: 15_000,
    once: "armed",
    position: "12:09:55",
    standing: "suspended",
    changed: true,
  },
  {
    name: "queued one-time, another payload: created anew",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:10:05",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "queued one-time, paused: taken back, no trace",
    spec: { ...once("12:10"), suspend: true },
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:10:05",
    once: "armed",
    position: "12:09:59.999",
    standing: "suspended",
    changed: true,
  },
  {
    name: "queued Forbid one-time does not overlap itself",
    spec: { ...once("12:10"), concurrencyPolicy: "Forbid" },
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:10:05",
    create: ["12:10"],
    once: "fired",
    changed: true,
  },
  {
    name: "started one-time, another payload: not again",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10"), state: "started" })],
    now: "12:10:05",
    once: "fired",
    changed: true,
  },
  {
    name: "one-time awaiting its retry, another payload: not again",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10"), attempts: 1 })],
    now: "12:10:05",
    once: "fired",
    changed: true,
  },
  {
    name: "one-time Forbid while its older firing runs",
    spec: { ...once("12:10"), concurrencyPolicy: "Forbid" },
    unfinished: [aRun(never)],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    once: "missed",
    changed: true,
  },
  {
    name: "one-time Replace",
    spec: { ...once("12:10"), concurrencyPolicy: "Replace" },
    unfinished: [aRun(never)],
    now: "12:10",
    create: ["12:10"],
    replace: ["old"],
    once: "fired",
    changed: true,
  },
  {
    name: "from one-time to cron",
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:11",
    once: "armed",
    wakeAt: "12:20",
    changed: true,
  },
  {
    name: "from cron to one-time",
    spec: once("12:30"),
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    once: "armed",
    wakeAt: "12:30",
    changed: true,
  },

  // Manual runs.
  {
    name: "run-now",
    job: { runNow: "a" },
    now: "12:05",
    create: ["manual:annotation:a"],
    changed: true,
  },
  {
    name: "the same run-now is spent",
    job: { runNow: "a" },
    cursor: { lastRunNow: "a" },
    now: "12:05",
    changed: false,
  },
  {
    name: "the next value runs again",
    job: { runNow: "b" },
    cursor: { lastRunNow: "a" },
    now: "12:05",
    create: ["manual:annotation:b"],
    changed: true,
  },
  { name: "removed is no request", cursor: { lastRunNow: "a" }, now: "12:05", changed: false },
  {
    name: "run-now while suspended",
    job: { runNow: "a" },
    spec: { suspend: true },
    cursor: { startable: false },
    now: "12:05",
    create: ["manual:annotation:a"],
    standing: "suspended",
    changed: true,
  },
  {
    name: "run-now despite Forbid",
    job: { runNow: "a" },
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ state: "started" })],
    now: "12:05",
    create: ["manual:annotation:a"],
    changed: true,
  },
  {
    name: "run-now beside a due run",
    job: { runNow: "a" },
    now: "12:10",
    create: ["12:10", "manual:annotation:a"],
    changed: true,
  },
  {
    name: "run-now of a completed one-time",
    job: { runNow: "a" },
    spec: once("11:00"),
    cursor: { once: "completed" },
    now: "12:05",
    create: ["manual:annotation:a"],
    once: "completed",
    changed: true,
  },
  {
    name: "run-now on a new job",
    job: { runNow: "a", createdAt: at("12:05") },
    cursor: null,
    now: "12:05:30",
    create: ["manual:annotation:a"],
    changed: true,
  },
  {
    name: "run-now on a restored job is old news",
    job: { runNow: "a" },
    cursor: null,
    now: "12:05",
    changed: true,
  },
  {
    name: "run-now without account is spent",
    job: { runNow: "a", account: null },
    cursor: { startable: false },
    now: "12:05",
    standing: "no-account",
    changed: true,
  },
  {
    name: "run-now while halted is spent",
    job: { runNow: "a" },
    cursor: { startable: false, haltedGeneration: 1 },
    now: "12:05",
    standing: "halted",
    changed: true,
  },

  // Halted, without account, deleted.
  {
    name: "410 halts the generation",
    cursor: { haltedGeneration: 1 },
    now: "12:10",
    standing: "halted",
    wakeAt: null,
    changed: true,
  },
  {
    name: "still halted",
    cursor: { haltedGeneration: 1, startable: false },
    now: "12:40",
    standing: "halted",
    wakeAt: null,
    changed: false,
  },
  {
    name: "a new generation clears the halt, without catching up",
    job: { generation: 2 },
    cursor: { generation: 1, haltedGeneration: 1, startable: false },
    now: "12:41",
    position: "12:41",
    wakeAt: "12:50",
    changed: true,
  },
  {
    name: "no account: nothing runs",
    job: { account: null },
    cursor: null,
    now: "12:10",
    standing: "no-account",
    wakeAt: null,
    changed: true,
  },
  {
    name: "no account wins over an invalid schedule",
    job: { account: null },
    spec: { schedule: { kind: "cron", expression: "x", timeZone: "UTC" } },
    cursor: null,
    now: "12:10",
    standing: "no-account",
    wakeAt: null,
    changed: true,
  },
  {
    name: "still no account",
    job: { account: null },
    cursor: { startable: false },
    now: "14:00",
    standing: "no-account",
    wakeAt: null,
    changed: false,
  },
  {
    name: "bound to an account: from now on",
    cursor: { startable: false },
    now: "14:05",
    position: "14:05",
    wakeAt: "14:10",
    changed: true,
  },
  {
    name: "deleted in PostgreSQL: nothing at all",
    job: { runNow: "x" },
    cursor: { deleted: true },
    now: "12:10",
    standing: "deleted",
    wakeAt: null,
    changed: false,
  },
];

test.each(CASES)("$name", (c) => {
  const job = aJob({ ...c.job, ...(c.spec === undefined ? {} : { spec: c.spec }) });
  const cursor =
    c.cursor === null
      ? undefined
      : aCursor(job, {
          ...(c.before === undefined ? {} : { scheduleHash: timingOf(aSpec(c.before)).hash }),
          ...c.cursor,
        });
  const input = { job, timing: timingOf(job.spec), cursor, now: at(c.now) };
  const horizon = input.now + (c.ahead ?? 0);
  const unfinished = c.unfinished ?? [];
  const decision = decide({ ...input, horizon, unfinished });

  expect(told(decision)).toEqual({
    create: (c.create ?? []).map((run) => (run.startsWith("manual") ? run : iso(run))),
    replace: c.replace ?? [],
    missed: (c.missed ?? []).map((text) => {
      const [reason = "", first = "", last = "", count = ""] = text.split(" ");
      return `${reason} ${iso(first)} ${iso(last)} ${count}`;
    }),
    position: c.position === undefined ? told(decision).position : iso(c.position),
    once: c.once ?? decision.to.once,
    wakeAt:
      c.wakeAt === undefined ? told(decision).wakeAt : c.wakeAt === null ? null : iso(c.wakeAt),
    standing: c.standing ?? "scheduled",
    changed: c.changed,
  });

  // Whoever skips the query for unfinished runs must come to the same decision.
  const without = decide({ ...input, horizon, unfinished: [] });
  const skips = !dependsOnUnfinished(job, cursor, without);
  expect(skips ? without : decision).toEqual(decision);
  // Deciding again on the outcome, at the same moment, finds nothing to do.
  const known = decision.standing === "stale" || decision.standing === "deleted";
  const after = known ? cursor : { ...decision.to, jobUid: job.uid, version: 8 };
  const again = decide({ ...input, cursor: after, horizon, unfinished: [] });
  expect(again).toMatchObject({ changed: false, create: [], missed: [], wakeAt: decision.wakeAt });
});

test("a scheduled run's key is its time in UTC", () => {
  const job = aJob();
  const now = at("12:10");
  const { create } = decide({
    job,
    timing: timingOf(job.spec),
    cursor: aCursor(job),
    unfinished: [],
    now,
    horizon: now,
  });
  expect(create).toEqual([
    { trigger: "schedule", key: "2026-03-10T12:10:00.000Z", scheduledAt: now },
  ]);
});

function time(instant: number): string {
  return isoUtc(instant).slice(11, 23);
}

function iso(text: string): string {
  return time(at(text));
}

function told(decision: Decision) {
  return {
    create: decision.create.map((run) =>
      run.trigger === "manual" ? `manual:${run.key}` : time(run.scheduledAt),
    ),
    replace: decision.replace,
    missed: decision.missed.map((m) => `${m.reason} ${time(m.first)} ${time(m.last)} ${m.count}`),
    position: time(decision.to.position),
    once: decision.to.once,
    wakeAt: decision.wakeAt === null ? null : time(decision.wakeAt),
    standing: decision.standing,
    changed: decision.changed,
  };
}
