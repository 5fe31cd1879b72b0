import { isoUtc, type Instant } from "../domain/instant.ts";
import type { JobStatus } from "../domain/job.ts";
import type { JobOutline } from "../domain/job-outline.ts";
import type { JobHistory } from "../domain/ports/run-history.ts";
import type { Reconciled } from "../domain/ports/status-reporter.ts";
import type { DecidedReason, MissedSpan } from "../domain/run.ts";
import type { NewEvent } from "./events.ts";
import { jobConditions, whyUnready } from "./job-conditions.ts";
import type { RememberedResource } from "./resource-memory.ts";

/** What events have already told about a job. */
export interface Told {
  /** `whyUnready`. */
  unready: string;
  status: JobStatus;
  circuitOpen: boolean;
}

/** The events for a change of status. Nothing when it has not changed, and nothing because a new leader took over. */
export function statusEvents(input: {
  job: JobOutline;
  observed: Reconciled;
  known: RememberedResource;
  /** Null: there was none. Undefined: this is the first look, and the stored status tells what was known. */
  before: JobHistory | null | undefined;
  history: JobHistory | null | undefined;
  /** Of the job's destination. */
  circuitOpen: boolean;
  /** Undefined as for `before`. */
  told: Told | undefined;
  now: Instant;
}): { events: NewEvent[]; told: Told } {
  const { job, observed, known, before, circuitOpen, now } = input;
  const { cursor, timing, status } = observed;
  const history = input.history ?? undefined;
  const events: NewEvent[] = [];
  const conditions = jobConditions({ job, cursor, timing, history, now });
  const ready = conditions.find((condition) => condition.type === "Ready");
  const unready = whyUnready(conditions);
  // These texts follow from the spec and the cursor, never from the time: each is told once.
  if (ready?.status === "False" && unready !== (input.told?.unready ?? known.unready))
    events.push({
      ...regarding(job, known),
      type: "Warning",
      reason: ready.reason,
      action: "Schedule",
      note: ready.message,
    });
  const last = history?.last;
  const fresh = last && (before === undefined ? known.digest === "" : before?.last?.id !== last.id);
  if (fresh && last.status === "failed")
    events.push({
      ...regarding(job, known),
      type: "Warning",
      reason: "RunFailed",
      action: "Deliver",
      note: `Attempt ${last.attempt} failed: ${last.errorMessage ?? "no error text"}`,
    });
  // Told apart from its last run: the cursor knows a moment later than the history.
  const told = input.told?.status ?? (known.digest === "" ? undefined : status);
  if (status === "completed" && told !== "completed")
    events.push({
      ...regarding(job, known),
      type: "Normal",
      reason: "Completed",
      action: "Deliver",
      note: "The one-time job has run.",
    });
  const wasOpen = input.told?.circuitOpen ?? known.transitions.has("DestinationReachable");
  if (circuitOpen !== wasOpen) events.push(circuitEvent(job, known, circuitOpen));
  return { events, told: { unready, status, circuitOpen } };
}

const REASONS: Record<DecidedReason, string> = {
  downtime: "nobody was there to create the run in time",
  deadline: "the starting deadline had passed",
  overlap: "an older run was unfinished and concurrencyPolicy is Forbid",
  paused: "the job was paused, or halted by a 410, before the run started",
  past_at_creation: "the time lay before the job's creation",
};

/** The circuit of the job's destination has opened or closed. */
function circuitEvent(job: JobOutline, known: RememberedResource, open: boolean): NewEvent {
  return {
    ...regarding(job, known),
    action: "Deliver",
    ...(open
      ? {
          type: "Warning",
          reason: "CircuitOpened",
          note: "The destination keeps failing: runs wait until it is back or their delivery deadline passes.",
        }
      : { type: "Normal", reason: "CircuitClosed", note: "Runs are let through again." }),
  };
}

/** Fire times that did not run. */
export function missedEvent(
  job: JobOutline,
  known: RememberedResource,
  span: MissedSpan<DecidedReason>,
): NewEvent {
  return {
    ...regarding(job, known),
    type: "Warning",
    reason: "Missed",
    action: "Schedule",
    note: `${runsOf(span)} did not take place: ${REASONS[span.reason]}.`,
  };
}

function runsOf({ reason, count, first, last }: MissedSpan): string {
  if (count > 1) return `${count} runs from ${isoUtc(first)} to ${isoUtc(last)}`;
  // An overlap is told when it happens, and while a receiver hangs at every fire time: one text makes one Event, which
  // has the time of the first and counts the others.
  return reason === "overlap" ? "A run" : `The run of ${isoUtc(first)}`;
}

function regarding(
  job: JobOutline,
  known: RememberedResource,
): Pick<NewEvent, "uid" | "namespace" | "name"> {
  return { uid: job.uid, namespace: known.namespace, name: known.name };
}
