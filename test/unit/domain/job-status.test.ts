import { expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { jobStatus, nextRunAt } from "../../../src/domain/job-status.ts";
import type { Job, JobSpec, JobStatus } from "../../../src/domain/job.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { jobConditions } from "../../../src/kubernetes/job-conditions.ts";
import { aCursor, aJob, aSpec, at } from "./decide-builders.ts";

const once = (time: string): Partial<JobSpec> => ({ schedule: { kind: "once", at: at(time) } });

interface Case {
  name: string;
  job?: Partial<Omit<Job, "spec">>;
  spec?: Partial<JobSpec>;
  cursor?: Partial<Cursor> | null;
  before?: Partial<JobSpec>;
  status: JobStatus;
  next: string | null;
  /** `Ready` and `Scheduled`, as status and reason. */
  ready: string;
  scheduled: string;
}

const OK = "True Accepted";
const bad: Partial<JobSpec> = { schedule: { kind: "cron", expression: "x", timeZone: "UTC" } };

const TOO_LARGE = { field: "webhook_payload", message: "must be at most 256 KiB and is 300 KiB" };

const CASES: Case[] = [
  { name: "cron", status: "active", next: "12:10", ready: OK, scheduled: "True Scheduled" },
  {
    name: "no cursor yet",
    cursor: null,
    status: "active",
    next: "12:10",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "the next run is the prepared one",
    cursor: { position: at("12:10") },
    status: "active",
    next: "12:10",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "suspended",
    spec: { suspend: true },
    status: "paused",
    next: null,
    ready: OK,
    scheduled: "False Suspended",
  },
  {
    name: "invalid",
    spec: bad,
    status: "invalid",
    next: null,
    ready: "False InvalidSchedule",
    scheduled: "False InvalidSchedule",
  },
  {
    name: "too large",
    spec: { refusal: TOO_LARGE },
    status: "invalid",
    next: null,
    ready: "False TooLarge",
    scheduled: "False TooLarge",
  },
  {
    name: "no target",
    spec: { refusal: { field: "webhook_url", message: "must be an absolute http or https URL" } },
    status: "invalid",
    next: null,
    ready: "False InvalidTarget",
    scheduled: "False InvalidTarget",
  },
  {
    name: "no time",
    spec: { refusal: { field: "run_at", message: "must be an RFC 3339 time" } },
    status: "invalid",
    next: null,
    ready: "False InvalidSchedule",
    scheduled: "False InvalidSchedule",
  },
  {
    name: "of another definition than ours",
    spec: { refusal: { field: "spec", message: "holds something in another form" } },
    status: "invalid",
    next: null,
    ready: "False Unreadable",
    scheduled: "False Unreadable",
  },
  {
    name: "no account",
    job: { account: null },
    status: "paused",
    next: null,
    ready: "False NoAccount",
    scheduled: "False NoAccount",
  },
  {
    name: "gone",
    cursor: { haltedGeneration: 1 },
    status: "paused",
    next: null,
    ready: "False Gone",
    scheduled: "False Gone",
  },
  {
    name: "gone, then changed",
    job: { generation: 2 },
    cursor: { haltedGeneration: 1, generation: 1 },
    status: "active",
    next: "12:10",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "one-time to come",
    spec: once("13:00"),
    status: "active",
    next: "13:00",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "one-time prepared",
    spec: once("12:05:10"),
    cursor: { once: "fired" },
    status: "active",
    next: "12:05:10",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "one-time running",
    spec: once("12:04"),
    cursor: { once: "fired" },
    status: "active",
    next: null,
    ready: OK,
    scheduled: "True Running",
  },
  {
    name: "one-time that is due, and that nobody has taken up yet",
    spec: once("12:04"),
    status: "active",
    next: "12:04",
    ready: OK,
    scheduled: "True Scheduled",
  },
  {
    name: "one-time completed",
    spec: once("12:00"),
    cursor: { once: "completed" },
    status: "completed",
    next: null,
    ready: OK,
    scheduled: "False Completed",
  },
  {
    name: "one-time failed",
    spec: once("12:00"),
    cursor: { once: "failed" },
    status: "failed",
    next: null,
    ready: OK,
    scheduled: "False Failed",
  },
  {
    name: "one-time missed",
    spec: once("12:00"),
    cursor: { once: "missed" },
    status: "failed",
    next: null,
    ready: OK,
    scheduled: "False Missed",
  },
  {
    name: "one-time completed, gone in a run by hand afterwards",
    spec: once("12:00"),
    cursor: { once: "completed", haltedGeneration: 1 },
    status: "completed",
    next: null,
    ready: "False Gone",
    scheduled: "False Completed",
  },
  {
    name: "one-time failed with a 410",
    spec: once("12:00"),
    cursor: { once: "failed", haltedGeneration: 1 },
    status: "failed",
    next: null,
    ready: "False Gone",
    scheduled: "False Failed",
  },
  {
    name: "one-time completed, paused afterwards",
    spec: { ...once("12:00"), suspend: true },
    before: once("12:00"),
    cursor: { once: "completed" },
    status: "completed",
    next: null,
    ready: OK,
    scheduled: "False Completed",
  },
  {
    name: "a new time that the cursor does not know yet",
    spec: once("13:00"),
    before: once("12:00"),
    cursor: { once: "completed" },
    status: "active",
    next: "13:00",
    ready: OK,
    scheduled: "True Scheduled",
  },
];

test.each(CASES)("$name", (c) => {
  const job = aJob({ ...c.job, spec: c.spec });
  const timing = timingOf(job.spec);
  const hash = c.before === undefined ? timing.hash : timingOf(aSpec(c.before)).hash;
  const cursor = c.cursor === null ? undefined : aCursor(job, { scheduleHash: hash, ...c.cursor });
  const now = at("12:05");
  const [ready, scheduled, last] = jobConditions({ job, cursor, timing, history: undefined, now });
  expect({
    status: jobStatus(job, cursor, timing),
    next: nextRunAt(job, cursor, timing, now),
    ready: `${ready?.status} ${ready?.reason}`,
    scheduled: `${scheduled?.status} ${scheduled?.reason}`,
    last: last?.reason,
  }).toEqual({
    status: c.status,
    next: c.next === null ? null : at(c.next),
    ready: c.ready,
    scheduled: c.scheduled,
    last: "NoRuns",
  });
});

test.each([
  { spec: { expression: "0 0 31 2 *", timeZone: "UTC" }, field: "spec.schedule.cron" },
  { spec: { expression: "@daily", timeZone: "Europe/Atlantis" }, field: "spec.schedule.timeZone" },
])("an invalid schedule is told of by the resource's field, $field", ({ spec, field }) => {
  const job = aJob({ spec: { schedule: { kind: "cron", ...spec } } });
  const timing = timingOf(job.spec);
  const input = { job, cursor: undefined, timing, history: undefined, now: at("12:00") };
  expect(jobConditions(input)[0]?.message).toMatch(new RegExp(`^${field}: `));
});

test("a job that a newer release can read is not Stalled: that may be on its way", () => {
  const job = aJob({
    spec: { refusal: { field: "spec", message: "holds something in another form" } },
  });
  const timing = timingOf(job.spec);
  const input = { job, cursor: undefined, timing, history: undefined, now: at("12:00") };
  expect(jobConditions(input).map(({ type }) => type)).not.toContain("Stalled");
});

test("what is too large is told of by the resource's field", () => {
  const job = aJob({ spec: { refusal: TOO_LARGE } });
  const timing = timingOf(job.spec);
  const input = { job, cursor: undefined, timing, history: undefined, now: at("12:00") };
  expect(jobConditions(input)[0]?.message).toBe(
    "spec.webhook.payload: must be at most 256 KiB and is 300 KiB. Nothing runs until it is mended.",
  );
});

test("a halted job says what still runs", () => {
  const job = aJob();
  const timing = timingOf(job.spec);
  const cursor = aCursor(job, { haltedGeneration: 1, startable: false });
  const input = { job, cursor, timing, history: undefined, now: at("12:00") };
  expect(jobConditions(input)[0]?.message).toBe(
    "The receiver answered 410 Gone. No scheduled run starts until the job is resumed or its spec changes; one asked for by hand does.",
  );
});
