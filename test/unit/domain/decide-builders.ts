import type { Cursor } from "../../../src/domain/cursor.ts";
import type { Instant } from "../../../src/domain/instant.ts";
import { SPEC_DEFAULTS, type Job, type JobSpec } from "../../../src/domain/job.ts";
import type { UnfinishedRun } from "../../../src/domain/run.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { timingOf } from "../../../src/domain/timing.ts";

/** A moment of the day that all cases share: `12:00`, or with seconds and milliseconds. */
export function at(time: string): Instant {
  return Date.parse(`2026-03-10T${time.length === 5 ? `${time}:00` : time}Z`);
}

export function aSpec(change: Partial<JobSpec> = {}): JobSpec {
  return {
    name: "job",
    schedule: { kind: "cron", expression: "*/10 * * * *", timeZone: "UTC" },
    target: {
      kind: "webhook",
      url: "http://receiver.example/",
      payload: "{}",
      headers: {},
      headersFrom: [],
      timeoutSeconds: 30,
    },
    suspend: false,
    startingDeadlineSeconds: null,
    deliveryDeadlineSeconds: SPEC_DEFAULTS.deliveryDeadlineSeconds,
    concurrencyPolicy: "Allow",
    retry: { maxRetries: 0, minBackoffSeconds: 5, maxBackoffSeconds: 3600 },
    ...change,
  };
}

export function aJob(change: Partial<Omit<Job, "spec">> & { spec?: Partial<JobSpec> } = {}): Job {
  const { spec, ...rest } = change;
  return {
    uid: "uid-1",
    account: "account-1",
    id: "job-1",
    generation: 1,
    version: "1",
    createdAt: at("00:00"),
    owner: null,
    runNow: null,
    ...rest,
    spec: aSpec(spec),
  };
}

/** A cursor that fits the job exactly, at 12:00. */
export function aCursor(job: Job, change: Partial<Cursor> = {}): Cursor {
  return {
    jobUid: job.uid,
    account: job.account,
    version: 7,
    position: at("12:00"),
    scheduleHash: timingOf(job.spec).hash,
    generation: job.generation,
    revision: revisionOf(job),
    startable: true,
    once: "armed",
    haltedGeneration: null,
    haltedAt: null,
    lastRunNow: null,
    deleted: false,
    ...change,
  };
}

export function aRun(change: Partial<UnfinishedRun> = {}): UnfinishedRun {
  return {
    id: "run-1",
    scheduledAt: at("12:00"),
    started: false,
    attempts: 0,
    ...change,
  };
}
