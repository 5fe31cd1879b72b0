import type { Instant } from "../domain/instant.ts";
import type { JobStatus } from "../domain/job.ts";
import type { JobOutline } from "../domain/job-outline.ts";
import { nextRunAt } from "../domain/job-status.ts";
import type { JobHistory } from "../domain/ports/run-history.ts";
import type { Reconciled } from "../domain/ports/status-reporter.ts";
import { jobConditions } from "./job-conditions.ts";
import type { RememberedResource } from "./resource-memory.ts";
import { rfc3339, type ScheduledJobStatus } from "./scheduled-job.ts";

const PHASES: Record<JobStatus, string> = {
  active: "Active",
  paused: "Paused",
  completed: "Completed",
  failed: "Failed",
  invalid: "Invalid",
};

/** Pure: what `status` should say, with transition times kept where a condition has not changed. */
export function statusContent(input: {
  job: JobOutline;
  observed: Reconciled;
  history: JobHistory | undefined;
  circuitOpen: boolean;
  transitions: RememberedResource["transitions"];
  now: Instant;
}): ScheduledJobStatus {
  const { job, observed, history, circuitOpen, transitions, now } = input;
  const { cursor, timing } = observed;
  const { schedule, target } = job.spec;
  const next = nextRunAt(job, cursor, timing, now);
  const last = history?.last ?? null;
  return {
    observedGeneration: job.generation,
    phase: PHASES[observed.status],
    type: target.kind,
    schedule: schedule.kind === "cron" ? schedule.expression : rfc3339(schedule.at),
    conditions: jobConditions({ job, cursor, timing, history, circuitOpen, now }).map(
      (condition) => {
        const before = transitions.get(condition.type);
        return {
          ...condition,
          observedGeneration: job.generation,
          lastTransitionTime: before?.status === condition.status ? before.since : seconds(now),
        };
      },
    ),
    lastScheduleTime: orNull(history?.lastScheduleTime),
    lastSuccessTime: orNull(history?.lastSuccessTime),
    nextScheduleTime: orNull(next),
    lastExecution: last && {
      id: last.id,
      status: last.status,
      httpStatus: last.httpStatus,
      attempt: last.attempt,
      trigger: last.trigger,
      scheduledTime: rfc3339(last.scheduledAt),
      executionTime: rfc3339(last.executedAt),
      durationMilliseconds: last.durationMs,
      ...(last.errorMessage !== null && { errorMessage: last.errorMessage }),
    },
  };
}

function orNull(instant: Instant | null | undefined): string | null {
  return instant === null || instant === undefined ? null : rfc3339(instant);
}

/** metav1.Time has whole seconds. */
function seconds(instant: Instant): string {
  return rfc3339(Math.floor(instant / 1_000) * 1_000);
}
