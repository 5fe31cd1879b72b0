import type { Cursor } from "./cursor.ts";
import type { Instant } from "./instant.ts";
import type { Job, JobStatus } from "./job.ts";
import { onceStateOf, type Timing } from "./timing.ts";

/** The parts of a cursor that a job's status depends on. */
export type StatusCursor = Pick<Cursor, "once" | "haltedGeneration" | "scheduleHash">;
/** The parts of a job that its status depends on. */
export type StatusJob = Pick<Job, "account" | "generation"> & {
  spec: Pick<Job["spec"], "schedule" | "suspend">;
};

/** Whether a 410 Gone has halted the job as it is: another generation is called again. */
export function isHalted(
  job: Pick<Job, "generation">,
  cursor: Pick<Cursor, "haltedGeneration"> | undefined,
): boolean {
  return cursor?.haltedGeneration === job.generation;
}

/**
 * REST `status`. The cursor may be older than the job: a one-time job whose `run_at` was changed a moment ago is active
 * again although the cursor does not know it yet. A job without account is `paused`: nothing runs.
 */
export function jobStatus(
  job: StatusJob,
  cursor: StatusCursor | undefined,
  timing: Timing,
): JobStatus {
  if (!timing.compiled.ok) return "invalid";
  const once = onceStateOf(job, cursor, timing);
  if (once === "completed") return "completed";
  if (once === "failed" || once === "missed") return "failed";
  if (job.account === null || job.spec.suspend || isHalted(job, cursor)) return "paused";
  return "active";
}

/** REST `next_run_at`: null unless the job is active and has a fire time to come. */
export function nextRunAt(
  job: StatusJob,
  cursor: StatusCursor | undefined,
  timing: Timing,
  now: Instant,
): Instant | null {
  if (!timing.compiled.ok || jobStatus(job, cursor, timing) !== "active") return null;
  const { schedule } = job.spec;
  if (schedule.kind === "cron") return timing.compiled.schedule.next(now);
  // A prepared run makes a one-time job `fired` before its time; one that is overdue and not fired is about to run.
  const fired = onceStateOf(job, cursor, timing) === "fired";
  return fired && schedule.at <= now ? null : schedule.at;
}
