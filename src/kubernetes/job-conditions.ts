import type { Finding } from "../domain/findings.ts";
import { isoUtc, type Instant } from "../domain/instant.ts";
import type { JobOutline } from "../domain/job-outline.ts";
import { isHalted, jobStatus, nextRunAt, type StatusCursor } from "../domain/job-status.ts";
import type { JobHistory } from "../domain/ports/run-history.ts";
import { onceStateOf, type Timing } from "../domain/timing.ts";
import { resourceField } from "./resource-fields.ts";

/** A condition of the status, without its transition time: the writer knows the old one. */
export interface JobCondition {
  type: "Ready" | "Scheduled" | "LastRunSucceeded" | "Stalled" | "DestinationReachable";
  status: "True" | "False" | "Unknown";
  /** CamelCase, stable. */
  reason: string;
  /** For people. */
  message: string;
}

/** The conditions of a job's status, as `kubectl describe` shows them. */
export function jobConditions(input: {
  job: JobOutline;
  cursor: StatusCursor | undefined;
  timing: Timing;
  history: JobHistory | undefined;
  /** The circuit of the job's destination is open, or being tried. */
  circuitOpen?: boolean;
  now: Instant;
}): JobCondition[] {
  const readiness = ready(input);
  const conditions = [readiness, scheduled(input), lastRun(input.history), ...stalled(readiness)];
  return input.circuitOpen ? [...conditions, UNREACHABLE] : conditions;
}

/**
 * Stalled: the job is not ready, and only a change of it helps, so that a tool that waits (kstatus) can stop. Not
 * without an account, which may still be bound, nor while a newer release, which can read the job, may be on its way.
 */
function stalled({ status, reason, message }: JobCondition): JobCondition[] {
  if (status !== "False" || reason === "NoAccount" || reason === UNREADABLE.reason) return [];
  return [{ type: "Stalled", status: "True", reason, message }];
}

/** Why nothing runs, as one text; empty when the job is ready, or the status has no condition `Ready` yet. */
export function whyUnready(
  conditions: readonly { type: string; status: string; reason: string; message: string }[] = [],
): string {
  const ready = conditions.find(({ type }) => type === "Ready");
  return ready?.status === "False" ? `${ready.reason}: ${ready.message}` : "";
}

/** Absent otherwise: of most destinations only their last run is known. */
const UNREACHABLE: JobCondition = {
  type: "DestinationReachable",
  status: "False",
  reason: "CircuitOpen",
  message:
    "The destination keeps failing: runs wait, and one call at a time finds out whether it is back.",
};

type ConditionInput = Parameters<typeof jobConditions>[0];

function ready({ job, cursor, timing }: ConditionInput): JobCondition {
  const type = "Ready";
  if (job.account === null)
    return unmet(
      type,
      "NoAccount",
      "The namespace is bound to no account; ask the operator to bind it, again if it was deleted and made anew. Nothing runs.",
    );
  if (!timing.compiled.ok) {
    const { field, message } = timing.compiled.finding;
    const what = `${resourceField(field)}: ${message}`;
    return job.spec.refusal
      ? unmet(type, refusalOf(job.spec.refusal).reason, `${what}. Nothing runs until it is mended.`)
      : unmet(type, "InvalidSchedule", what);
  }
  if (isHalted(job, cursor))
    return unmet(
      type,
      "Gone",
      "The receiver answered 410 Gone. No scheduled run starts until the job is resumed or its spec changes; one asked for by hand does.",
    );
  return { type, status: "True", reason: "Accepted", message: "The job is valid." };
}

const UNREADABLE = { reason: "Unreadable", message: "This release cannot read the job" };

function refusalOf({ field }: Finding): { reason: string; message: string } {
  if (field === "spec") return UNREADABLE;
  if (field === "run_at") return { reason: "InvalidSchedule", message: "The schedule is invalid" };
  return field === "webhook_payload" || field === "email_body"
    ? { reason: "TooLarge", message: "The job is larger than it may be" }
    : { reason: "InvalidTarget", message: "Nobody can be reached by this job" };
}

function scheduled(input: ConditionInput): JobCondition {
  const { job, cursor, timing, now } = input;
  const type = "Scheduled";
  const because = (reason: string, message: string) => unmet(type, reason, message);
  const status = jobStatus(job, cursor, timing);
  switch (status) {
    case "invalid": {
      if (!job.spec.refusal) return because("InvalidSchedule", "The schedule is invalid.");
      const { reason, message } = refusalOf(job.spec.refusal);
      return because(reason, `${message}: see Ready.`);
    }
    case "completed":
      return because("Completed", "The one-time job has run. A new time schedules it again.");
    case "failed":
      return onceStateOf(job, cursor, timing) === "missed"
        ? because("Missed", "The one-time job missed its time. A new time schedules it again.")
        : because("Failed", "The one-time job has failed. A new time schedules it again.");
    case "paused":
      if (job.account === null) return because("NoAccount", "The namespace has no account.");
      if (isHalted(job, cursor))
        return because("Gone", "Halted because the receiver answered 410 Gone.");
      return because("Suspended", "spec.suspend is true.");
    case "active":
      break;
  }
  const next = nextRunAt(job, cursor, timing, now);
  if (next === null)
    return { type, status: "True", reason: "Running", message: "The run has been created." };
  return { type, status: "True", reason: "Scheduled", message: `Next run at ${isoUtc(next)}.` };
}

function lastRun(history: JobHistory | undefined): JobCondition {
  const type = "LastRunSucceeded";
  const last = history?.last ?? null;
  if (last === null)
    return { type, status: "Unknown", reason: "NoRuns", message: "No attempt has ended yet." };
  const when = isoUtc(last.executedAt);
  return last.status === "success"
    ? {
        type,
        status: "True",
        reason: "Succeeded",
        message: `Status ${last.httpStatus} at ${when}.`,
      }
    : unmet(type, "Failed", `Failed at ${when}: ${last.errorMessage ?? "no error text"}`);
}

function unmet(type: JobCondition["type"], reason: string, message: string): JobCondition {
  return { type, status: "False", reason, message };
}
