import { expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import {
  decide,
  dependsOnUnfinished,
  type Decision,
  type Standing,
} from "../../../src/domain/decide.ts";
import { isoUtc } from "../../../src/domain/instant.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { aCursor, aJob, aRun, aSpec, at } from "./decide-builders.ts";

interface Case {
  name: string;
  /** Differences from an active job that fires every ten minutes, created at 00:00. */
  job?: Partial<Omit<Job, "spec">>;
  spec?: Partial<JobSpec>;
  /** Differences from a cursor at 12:00 that knows the job; null: no cursor. */
  cursor?: Partial<Cursor> | null;
  /** Differences of the spec on which the cursor was decided. */
  before?: Partial<JobSpec>;
  unfinished?: UnfinishedRun[];
  now: string;
  /** Milliseconds that runs are prepared ahead. */
  ahead?: number;
  storeWins?: boolean;
  /** Times of scheduled runs, `manual:key` for others. */
  create?: string[];
  replace?: string[];
  /** `reason first last count`. */
  missed?: string[];
  position?: string;
  once?: Cursor["once"];
  wakeAt?: string | null;
  standing?: Standing;
  haltedGeneration?: number;
  /** Whether there is something to write; default true. */
  changed?: boolean;
}

const once = (time: string): Partial<JobSpec> => ({ schedule: { kind: "once", at: at(time) } });
const hourly: Partial<JobSpec> = {
  schedule: { kind: "cron", expression: "0 * * * *", timeZone: "UTC" },
};
/** As a closing leaves the cursor, but without `haltedAt`, which is set only until a leader takes the halt up. */
const halted: Partial<Cursor> = { haltedGeneration: 1, startable: false };
const never = { scheduledAt: at("11:00"), id: "old" };

const CASES: Case[] = [
  // A cron job on time.
  { name: "nothing due", now: "12:05", changed: false, wakeAt: "12:10" },
  { name: "due now", now: "12:10", create: ["12:10"], position: "12:10", wakeAt: "12:20" },
  { name: "due a moment ago", now: "12:10:00.020", create: ["12:10"], position: "12:10:00.020" },
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
  },
  {
    name: "an unknown zone",
    spec: { schedule: { kind: "cron", expression: "0 * * * *", timeZone: "Mars/Base" } },
    cursor: null,
    now: "12:10",
    standing: "invalid",
    wakeAt: null,
  },
  {
    name: "a local time of its zone",
    spec: { schedule: { kind: "cron", expression: "10 13 * * *", timeZone: "Europe/Paris" } },
    now: "12:10",
    create: ["12:10"],
  },

  // Missed time.
  {
    name: "two due: the latest runs",
    now: "12:21",
    create: ["12:20"],
    missed: ["downtime 12:10 12:10 1"],
  },
  {
    name: "an hour away: one run, one span",
    now: "13:05",
    create: ["13:00"],
    missed: ["downtime 12:10 12:50 5"],
  },
  {
    name: "late but within the deadline",
    spec: { startingDeadlineSeconds: 120 },
    now: "12:12",
    create: ["12:10"],
  },
  {
    name: "beyond the deadline",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:12",
    missed: ["deadline 12:10 12:10 1"],
    wakeAt: "12:20",
  },
  {
    name: "all beyond the deadline",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:35",
    missed: ["deadline 12:10 12:30 3"],
  },
  {
    name: "older ones beyond the deadline, newer ones down",
    spec: { startingDeadlineSeconds: 900 },
    now: "12:41",
    create: ["12:40"],
    missed: ["deadline 12:10 12:20 2", "downtime 12:30 12:30 1"],
  },
  {
    name: "one exactly at the deadline could still have run: down",
    spec: { startingDeadlineSeconds: 1_260 },
    now: "12:41",
    create: ["12:40"],
    missed: ["deadline 12:10 12:10 1", "downtime 12:20 12:30 2"],
  },
  {
    name: "exactly at the deadline still runs",
    spec: { startingDeadlineSeconds: 60 },
    now: "12:11",
    create: ["12:10"],
  },
  {
    name: "deadline zero runs what is due this instant",
    spec: { startingDeadlineSeconds: 0 },
    now: "12:10",
    create: ["12:10"],
  },

  // No cursor yet.
  {
    name: "created just now",
    job: { createdAt: at("12:04") },
    cursor: null,
    now: "12:04:01",
    wakeAt: "12:10",
    position: "12:04:01",
  },
  {
    name: "created an instant before its time",
    job: { createdAt: at("12:09:59") },
    cursor: null,
    now: "12:10:01",
    create: ["12:10"],
  },
  {
    name: "created at its very time: that one is not after creation",
    job: { createdAt: at("12:10") },
    cursor: null,
    now: "12:10:01",
    wakeAt: "12:20",
  },
  {
    name: "its creation lies ahead of our clock",
    job: { createdAt: at("12:10:02") },
    cursor: null,
    now: "12:09:59",
    wakeAt: "12:10",
    position: "12:09:59",
  },
  {
    name: "seen minutes after its creation: recorded, not run",
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:25",
    missed: ["downtime 12:10 12:20 2"],
    wakeAt: "12:30",
  },
  {
    name: "seen minutes after its creation, and in time for the latest: one span before it",
    job: { createdAt: at("12:05") },
    spec: { schedule: { kind: "cron", expression: "* * * * *", timeZone: "UTC" } },
    cursor: null,
    now: "12:10",
    create: ["12:10"],
    missed: ["downtime 12:06 12:09 4"],
  },
  {
    name: "a fire time of a minute ago, of a new job, runs",
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:11",
    create: ["12:10"],
  },
  {
    name: "one of more than a minute ago is recorded",
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:11:00.001",
    missed: ["downtime 12:10 12:10 1"],
  },
  {
    name: "one beyond the job's own starting deadline is recorded as such, however new the job",
    job: { createdAt: at("12:05") },
    spec: { startingDeadlineSeconds: 30 },
    cursor: null,
    now: "12:10:30.001",
    missed: ["deadline 12:10 12:10 1"],
  },
  {
    name: "a job of just under an hour is new",
    job: { createdAt: at("11:10:00.001") },
    cursor: null,
    now: "12:10",
    create: ["12:10"],
    missed: ["downtime 11:20 12:00 5"],
  },
  {
    name: "a job of an hour has lost its cursor",
    job: { createdAt: at("11:10") },
    cursor: null,
    now: "12:10",
    position: "12:10",
    wakeAt: "12:20",
  },
  {
    name: "an old job whose cursor is lost starts at now",
    cursor: null,
    now: "12:10",
    position: "12:10",
    wakeAt: "12:20",
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
  },
  {
    name: "another payload keeps what is due",
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:11",
    create: ["12:10"],
  },
  {
    name: "another payload and nothing due",
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:05",
    wakeAt: "12:10",
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
    name: "paused: nothing fires, and what was due and not decided is on record",
    spec: { suspend: true },
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "12:21",
    missed: ["paused 12:10 12:20 2"],
    position: "12:21",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "paused with another schedule: nobody knows the old one",
    spec: { ...hourly, suspend: true },
    before: {},
    job: { generation: 2 },
    cursor: { generation: 1 },
    now: "13:01",
    position: "13:01",
    standing: "suspended",
    wakeAt: null,
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
  },
  {
    name: "created paused",
    spec: { suspend: true },
    job: { createdAt: at("12:09:59") },
    cursor: null,
    now: "12:10:01",
    standing: "suspended",
    wakeAt: null,
  },

  // Prepared runs.
  {
    name: "inside the horizon: created ahead",
    now: "12:09:50",
    ahead: 15_000,
    create: ["12:10"],
    position: "12:10",
    wakeAt: "12:19:45",
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
  },
  {
    name: "another payload, no horizon: the cursor is set back",
    job: { generation: 2 },
    cursor: { generation: 1, position: at("12:10") },
    now: "12:09:55",
    position: "12:09:55",
    wakeAt: "12:10",
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
    name: "Forbid one-time is not prepared",
    spec: { ...once("12:10"), concurrencyPolicy: "Forbid" },
    now: "12:09:55",
    ahead: 15_000,
    once: "armed",
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
  },
  {
    name: "account lost with a queued one-time: taken back",
    job: { account: null },
    spec: once("12:10"),
    cursor: { once: "fired", position: at("12:10") },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:11",
    once: "armed",
    position: "12:09:59.999",
    standing: "no-account",
  },

  // Overlap.
  {
    name: "Allow overlaps",
    unfinished: [aRun({ state: "started" })],
    now: "12:10",
    create: ["12:10"],
  },
  {
    name: "Forbid skips while one is started",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ state: "started" })],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    wakeAt: "12:20",
  },
  {
    name: "Forbid skips while one is queued",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun()],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
  },
  {
    name: "Forbid skips while one awaits its retry",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ attempts: 2 })],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
  },
  {
    name: "Forbid runs when nothing is unfinished",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:10",
    create: ["12:10"],
  },
  {
    name: "Forbid does not mind a manual run",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ trigger: "manual" })],
    now: "12:10",
    create: ["12:10"],
  },
  {
    name: "Forbid after downtime: the latest overlaps, the others were down",
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun()],
    now: "12:31",
    missed: ["downtime 12:10 12:20 2", "overlap 12:30 12:30 1"],
  },
  {
    name: "Forbid beyond the deadline: the deadline is the reason",
    spec: { concurrencyPolicy: "Forbid", startingDeadlineSeconds: 10 },
    unfinished: [aRun()],
    now: "12:11",
    missed: ["deadline 12:10 12:10 1"],
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
  },
  {
    name: "Replace with nothing to replace",
    spec: { concurrencyPolicy: "Replace" },
    now: "12:10",
    create: ["12:10"],
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
  },
  {
    name: "one-time late rather than never",
    spec: once("12:10"),
    now: "19:10",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time beyond its deadline",
    spec: { ...once("12:10"), startingDeadlineSeconds: 60 },
    now: "12:12",
    missed: ["deadline 12:10 12:10 1"],
    once: "missed",
  },
  {
    name: "one-time at its deadline",
    spec: { ...once("12:10"), startingDeadlineSeconds: 60 },
    now: "12:11",
    create: ["12:10"],
    once: "fired",
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
  },
  {
    name: "one-time completed, and the clock has stepped back to before its time: another payload changes nothing",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed", position: at("12:10") },
    now: "12:09",
    once: "completed",
    wakeAt: null,
  },
  {
    name: "one-time completed, paused",
    spec: { ...once("12:10"), suspend: true },
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:30",
    once: "completed",
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
  },
  {
    name: "one-time past its time, bound to an account: runs",
    spec: once("12:10"),
    cursor: { startable: false },
    now: "12:30",
    create: ["12:10"],
    once: "fired",
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
  },
  {
    name: "one-time from a backup",
    spec: once("12:10"),
    job: { createdAt: at("12:12") },
    cursor: null,
    now: "12:12:01",
    missed: ["past_at_creation 12:10 12:10 1"],
    once: "missed",
  },
  {
    name: "one-time a little before its creation",
    spec: once("12:10"),
    job: { createdAt: at("12:10:30") },
    cursor: null,
    now: "12:10:31",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time to come whose creation lies minutes ahead of our clock",
    spec: once("12:10"),
    job: { createdAt: at("12:15") },
    cursor: null,
    now: "12:08",
    wakeAt: "12:10",
  },
  {
    name: "its time has come",
    spec: once("12:10"),
    job: { createdAt: at("12:15") },
    now: "12:10",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time from a backup whose creation lies ahead of our clock",
    spec: once("12:06"),
    job: { createdAt: at("12:15") },
    cursor: null,
    now: "12:08",
    missed: ["past_at_creation 12:06 12:06 1"],
    once: "missed",
  },
  {
    name: "one-time first seen minutes late",
    spec: once("12:10"),
    job: { createdAt: at("12:05") },
    cursor: null,
    now: "12:40",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time of just under an hour: new, late rather than never",
    spec: once("12:10"),
    job: { createdAt: at("11:40:00.001") },
    cursor: null,
    now: "12:40",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time of an hour: it may have run",
    spec: once("12:10"),
    job: { createdAt: at("11:40") },
    cursor: null,
    now: "12:40",
    missed: ["downtime 12:10 12:10 1"],
    once: "missed",
  },
  {
    name: "old one-time whose cursor is lost",
    spec: once("12:10"),
    cursor: null,
    now: "12:40",
    missed: ["downtime 12:10 12:10 1"],
    once: "missed",
  },
  {
    name: "old one-time whose cursor is lost, still to come",
    spec: once("13:10"),
    cursor: null,
    now: "12:40",
    once: "armed",
    wakeAt: "13:10",
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
  },
  {
    name: "started one-time, another payload: not again",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10"), state: "started" })],
    now: "12:10:05",
    once: "fired",
  },
  {
    name: "started one-time, another payload after the clock has stepped back: not again",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10"), state: "started" })],
    now: "12:09:50",
    once: "fired",
  },
  {
    name: "one-time awaiting its retry, another payload: not again",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10"), attempts: 1 })],
    now: "12:10:05",
    once: "fired",
  },
  {
    name: "one-time Forbid while its older firing runs",
    spec: { ...once("12:10"), concurrencyPolicy: "Forbid" },
    unfinished: [aRun(never)],
    now: "12:10",
    missed: ["overlap 12:10 12:10 1"],
    once: "missed",
  },
  {
    name: "one-time that is created anew: Allow leaves the run of an earlier time alone",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    unfinished: [aRun({ ...never, state: "started" }), aRun({ scheduledAt: at("12:10") })],
    now: "12:10",
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "one-time whose run is under way: a queued run by hand takes nothing back",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    unfinished: [
      aRun({ scheduledAt: at("12:10"), state: "started" }),
      aRun({ id: "m", trigger: "manual", scheduledAt: at("12:10") }),
    ],
    now: "12:10:05",
    once: "fired",
    wakeAt: null,
  },
  {
    name: "nor does a queued run of an earlier time",
    spec: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "fired", position: at("12:10") },
    unfinished: [aRun(never), aRun({ scheduledAt: at("12:10"), state: "started" })],
    now: "12:10:05",
    once: "fired",
    wakeAt: null,
  },
  {
    name: "one-time Replace",
    spec: { ...once("12:10"), concurrencyPolicy: "Replace" },
    unfinished: [aRun(never)],
    now: "12:10",
    create: ["12:10"],
    replace: ["old"],
    once: "fired",
  },
  {
    name: "from one-time to cron",
    before: once("12:10"),
    job: { generation: 2 },
    cursor: { generation: 1, once: "completed" },
    now: "12:11",
    once: "armed",
    wakeAt: "12:20",
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
  },

  // Manual runs.
  { name: "run-now", job: { runNow: "a" }, now: "12:05", create: ["manual:annotation:a"] },
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
  },
  {
    name: "run-now despite Forbid",
    job: { runNow: "a" },
    spec: { concurrencyPolicy: "Forbid" },
    unfinished: [aRun({ state: "started" })],
    now: "12:05",
    create: ["manual:annotation:a"],
  },
  {
    name: "run-now beside a due run",
    job: { runNow: "a" },
    now: "12:10",
    create: ["12:10", "manual:annotation:a"],
  },
  {
    name: "run-now of a completed one-time",
    job: { runNow: "a" },
    spec: once("11:00"),
    cursor: { once: "completed" },
    now: "12:05",
    create: ["manual:annotation:a"],
    once: "completed",
  },
  {
    name: "run-now on a new job",
    job: { runNow: "a", createdAt: at("12:05") },
    cursor: null,
    now: "12:05:30",
    create: ["manual:annotation:a"],
  },
  {
    name: "run-now on a job of a minute",
    job: { runNow: "a", createdAt: at("12:04") },
    cursor: null,
    now: "12:05",
    create: ["manual:annotation:a"],
  },
  {
    name: "run-now on one that is older: nobody knows when it was asked for",
    job: { runNow: "a", createdAt: at("12:03:59.999") },
    cursor: null,
    now: "12:05",
  },
  {
    name: "run-now on a restored job is old news",
    job: { runNow: "a" },
    cursor: null,
    now: "12:05",
  },
  {
    name: "run-now without account is spent",
    job: { runNow: "a", account: null },
    cursor: { startable: false },
    now: "12:05",
    standing: "no-account",
  },
  {
    name: "run-now of an invalid job is spent",
    job: { runNow: "a" },
    spec: { schedule: { kind: "cron", expression: "99 * * * *", timeZone: "UTC" } },
    cursor: { startable: false },
    now: "12:05",
    wakeAt: null,
    standing: "invalid",
  },
  {
    name: "run-now while halted",
    job: { runNow: "a" },
    cursor: halted,
    now: "12:05",
    create: ["manual:annotation:a"],
    standing: "halted",
  },

  // Halted, without account, deleted.
  {
    name: "410 halts the generation",
    cursor: { ...halted, haltedAt: at("12:09:59") },
    now: "12:10",
    position: "12:10",
    standing: "halted",
    wakeAt: null,
  },
  {
    name: "410: what was due before it and not decided is on record, what came after is not",
    cursor: { ...halted, haltedAt: at("12:20") },
    now: "12:41",
    missed: ["paused 12:10 12:20 2"],
    position: "12:41",
    standing: "halted",
    wakeAt: null,
  },
  {
    name: "410 while a run is prepared: the cursor is set back",
    cursor: { ...halted, haltedAt: at("12:09:50"), position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    position: "12:09:55",
    standing: "halted",
    wakeAt: null,
  },
  {
    name: "410 to a manual run while the one-time's is prepared: taken back",
    spec: once("12:10"),
    cursor: { ...halted, haltedAt: at("12:09:50"), position: at("12:10"), once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:09:55",
    ahead: 15_000,
    position: "12:09:55",
    once: "armed",
    standing: "halted",
    wakeAt: null,
  },
  {
    name: "410 to a one-time's own run: it has failed",
    spec: once("12:10"),
    cursor: { ...halted, haltedAt: at("12:10:01"), position: at("12:10"), once: "failed" },
    now: "12:11",
    once: "failed",
    standing: "halted",
    wakeAt: null,
  },
  {
    name: "a halt that is lifted before it was taken up: on record up to the halt, from now on",
    cursor: { startable: false, haltedAt: at("12:25") },
    now: "12:41",
    missed: ["paused 12:10 12:20 2"],
    position: "12:41",
    wakeAt: "12:50",
  },
  {
    name: "a halt that a new generation clears before it was taken up: the same",
    job: { generation: 2 },
    cursor: { ...halted, generation: 1, haltedAt: at("12:25") },
    now: "12:41",
    missed: ["paused 12:10 12:20 2"],
    position: "12:41",
    wakeAt: "12:50",
  },
  {
    name: "a halt that a pause follows before it was taken up: on record up to the halt",
    spec: { suspend: true },
    before: {},
    job: { generation: 2 },
    cursor: { ...halted, generation: 1, haltedAt: at("12:25") },
    now: "12:41",
    missed: ["paused 12:10 12:20 2"],
    position: "12:41",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "a halt that another schedule clears before it was taken up: nobody knows the old one",
    spec: hourly,
    before: {},
    job: { generation: 2 },
    cursor: { ...halted, generation: 1, haltedAt: at("12:25") },
    now: "12:41",
    position: "12:41",
    wakeAt: "13:00",
  },
  {
    name: "a halt that a release took up and ended which left the moment there",
    cursor: { haltedAt: at("11:55") },
    now: "12:11",
    create: ["12:10"],
    wakeAt: "12:20",
  },
  {
    name: "such a halt, and a pause after it",
    spec: { suspend: true },
    cursor: { startable: false, haltedAt: at("11:55") },
    now: "12:41",
    position: "12:41",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "still halted",
    cursor: halted,
    now: "12:40",
    standing: "halted",
    wakeAt: null,
    changed: false,
  },
  {
    name: "a new generation clears the halt, without catching up",
    job: { generation: 2 },
    cursor: { ...halted, generation: 1 },
    now: "12:41",
    position: "12:41",
    wakeAt: "12:50",
  },
  {
    name: "a halt outlasts a while without account",
    job: { account: null },
    cursor: { ...halted, account: "account-1" },
    now: "12:40",
    standing: "no-account",
    haltedGeneration: 1,
    wakeAt: null,
  },
  {
    name: "and stands when there is one again",
    cursor: { ...halted, account: null },
    now: "12:50",
    standing: "halted",
    haltedGeneration: 1,
    wakeAt: null,
  },
  {
    name: "a halt outlasts a leader of another release, which cannot read the job",
    spec: { refusal: { field: "spec", message: "is not understood" } },
    cursor: { ...halted, revision: "1:0:another" },
    now: "12:40",
    standing: "invalid",
    haltedGeneration: 1,
    wakeAt: null,
    changed: false,
  },
  {
    name: "no account: nothing runs",
    job: { account: null },
    cursor: null,
    now: "12:10",
    standing: "no-account",
    wakeAt: null,
  },
  {
    name: "no account wins over an invalid schedule",
    job: { account: null },
    spec: { schedule: { kind: "cron", expression: "x", timeZone: "UTC" } },
    cursor: null,
    now: "12:10",
    standing: "no-account",
    wakeAt: null,
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
    name: "suspended, and bound to another account before anybody saw it without: the cursor is that one's",
    spec: { suspend: true },
    cursor: { account: "account-0", startable: false },
    now: "14:00",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "bound to an account: from now on",
    cursor: { startable: false },
    now: "14:05",
    position: "14:05",
    wakeAt: "14:10",
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

  // A list that is newer than the cursor contradicts it.
  {
    name: "deleted, says the cursor, and the store has it: from now on",
    cursor: { deleted: true, startable: false },
    storeWins: true,
    now: "14:05",
    position: "14:05",
    wakeAt: "14:10",
  },
  {
    name: "a later generation, says the cursor, and the store has this one: from now on",
    job: { generation: 4 },
    cursor: { generation: 5 },
    storeWins: true,
    now: "14:05",
    position: "14:05",
    wakeAt: "14:10",
  },
  {
    name: "taken up again while paused",
    job: { generation: 4 },
    spec: { suspend: true },
    cursor: { generation: 5, startable: false },
    storeWins: true,
    now: "14:05",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "deleted, says the cursor, and the store has it paused: nothing of it but the deletion changes",
    spec: { suspend: true },
    cursor: { deleted: true, startable: false },
    storeWins: true,
    now: "14:05",
    standing: "suspended",
    wakeAt: null,
  },
  {
    name: "another spec under the number that is known: what was prepared is decided again",
    cursor: { revision: "1:1:another", position: at("12:10") },
    now: "12:09:55",
    ahead: 15_000,
    create: ["12:10"],
    position: "12:10",
  },
  {
    name: "another one-time under the number that is known: its prepared run too",
    spec: once("12:10"),
    cursor: { revision: "1:1:another", position: at("12:10"), once: "fired" },
    unfinished: [aRun({ scheduledAt: at("12:10") })],
    now: "12:09:55",
    ahead: 15_000,
    create: ["12:10"],
    once: "fired",
  },
  {
    name: "another spec under the number that was halted",
    cursor: { ...halted, revision: "1:1:another" },
    now: "12:41",
    position: "12:41",
    wakeAt: "12:50",
  },
  {
    name: "a release that knew of no revisions wrote the cursor",
    cursor: { revision: null },
    now: "12:05",
    wakeAt: "12:10",
    changed: false,
  },
  {
    name: "such a release wrote the cursor after one that knew",
    job: { generation: 2 },
    cursor: { revision: "1:1:another" },
    now: "12:05",
    wakeAt: "12:10",
    changed: false,
  },
  {
    name: "a one-time whose run was cancelled has it to come",
    spec: once("15:00"),
    cursor: { deleted: true, startable: false, once: "fired" },
    storeWins: true,
    now: "14:05",
    once: "armed",
    wakeAt: "15:00",
  },
  {
    name: "a one-time that ran does not run again",
    spec: once("13:00"),
    cursor: { deleted: true, startable: false, once: "completed" },
    storeWins: true,
    now: "14:05",
    once: "completed",
    wakeAt: null,
  },
  {
    name: "a one-time whose run is under way awaits it",
    job: { generation: 4 },
    spec: once("13:00"),
    cursor: { generation: 5, once: "fired" },
    unfinished: [aRun({ scheduledAt: at("13:00"), generation: 5, state: "started" })],
    storeWins: true,
    now: "14:05",
    once: "fired",
    wakeAt: null,
  },
  {
    name: "a restored one-time whose time has gone by is recorded",
    job: { generation: 4 },
    spec: once("13:00"),
    before: once("13:30"),
    cursor: { generation: 5, once: "completed" },
    storeWins: true,
    now: "14:05",
    missed: ["downtime 13:00 13:00 1"],
    position: "14:05",
    once: "missed",
    wakeAt: null,
  },
  {
    name: "a restored one-time that is young runs late: nobody knows that it was deleted on purpose",
    job: { createdAt: at("13:30") },
    spec: once("13:50"),
    cursor: { deleted: true, startable: false, once: "fired" },
    storeWins: true,
    now: "14:05",
    create: ["13:50"],
    position: "14:05",
    once: "fired",
    wakeAt: null,
  },
  {
    name: "a cursor that does not contradict is believed",
    cursor: {},
    storeWins: true,
    now: "12:11",
    create: ["12:10"],
    position: "12:11",
    wakeAt: "12:20",
  },
];

test.each(CASES)("$name", (c) => {
  const job = aJob({ ...c.job, spec: c.spec });
  const cursor =
    c.cursor === null
      ? undefined
      : aCursor(job, {
          ...(c.before === undefined ? {} : { scheduleHash: timingOf(aSpec(c.before)).hash }),
          ...c.cursor,
        });
  const revision = revisionOf(job);
  const input = { job, revision, timing: timingOf(job.spec), cursor, now: at(c.now) };
  const horizon = input.now + (c.ahead ?? 0);
  const unfinished = c.unfinished ?? [];
  const storeWins = c.storeWins ?? false;
  const decision = decide({ ...input, horizon, unfinished, storeWins });

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
    haltedGeneration: c.haltedGeneration ?? decision.to.haltedGeneration,
    changed: c.changed ?? true,
  });

  // The decision must be the same if the query for unfinished runs is skipped.
  const without = decide({ ...input, horizon, unfinished: [], storeWins });
  const skips = !dependsOnUnfinished(job, cursor, without);
  expect(skips ? without : decision).toEqual(decision);
  // A second decision at the same moment finds nothing to do.
  const known = decision.standing === "stale" || decision.standing === "deleted";
  const after = known ? cursor : { ...decision.to, jobUid: job.uid, version: 8 };
  const again = decide({ ...input, cursor: after, horizon, unfinished: [] });
  expect(again).toMatchObject({ changed: false, create: [], missed: [], wakeAt: decision.wakeAt });
});

// Who asks for the unfinished runs all the same decides right, but a query for each due run is what makes a herd late.
test.each<{
  title: string;
  spec?: Partial<JobSpec>;
  now: string;
  runNow?: string;
  depends: boolean;
}>([
  { title: "a due run of Allow", now: "12:10", depends: false },
  {
    title: "a due run of Forbid",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:10",
    depends: true,
  },
  {
    title: "a due run of Replace beside a manual one",
    spec: { concurrencyPolicy: "Replace" },
    now: "12:10",
    runNow: "please",
    depends: true,
  },
  {
    title: "nothing due of Forbid",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:05",
    depends: false,
  },
  {
    title: "a manual run alone",
    spec: { concurrencyPolicy: "Forbid" },
    now: "12:05",
    runNow: "please",
    depends: false,
  },
])("the decision on $title depends on unfinished runs: $depends", (c) => {
  const job = aJob({ spec: c.spec ?? {}, runNow: c.runNow ?? null });
  const cursor = aCursor(job, { lastRunNow: null });
  const now = at(c.now);
  const revision = revisionOf(job);
  const timing = timingOf(job.spec);
  const without = decide({ job, revision, timing, cursor, unfinished: [], now, horizon: now });
  expect(without.create.map(({ trigger }) => trigger)).toEqual([
    ...(c.now === "12:10" ? ["schedule"] : []),
    ...(c.runNow === undefined ? [] : ["manual"]),
  ]);
  expect(dependsOnUnfinished(job, cursor, without)).toBe(c.depends);
});

test("a scheduled run's key is its time in UTC", () => {
  const job = aJob();
  const now = at("12:10");
  const { create } = decide({
    job,
    revision: revisionOf(job),
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
    haltedGeneration: decision.to.haltedGeneration,
    changed: decision.changed,
  };
}
