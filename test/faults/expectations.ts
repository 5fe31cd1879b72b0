/**
 * Which fire times a job must have, from nothing but what was asked of the system and when it said yes.
 * Plain arithmetic on purpose: it must not share a mistake with the scheduler.
 */
import { MINUTE, SECOND, type Instant } from "../../src/domain/instant.ts";
import type { ExpectedJob, Rule, Target } from "./checker.ts";

/** `sentAt` of the first try; `answeredAt` of the answer, null when nobody knows whether it was done. */
interface Asked {
  sentAt: Instant;
  answeredAt: Instant | null;
}

export type Operation = Asked &
  ({ kind: "create" | "move"; runAt: Instant } | { kind: "pause" | "resume" | "delete" });

export interface JobHistory {
  jobId: string;
  maxRetries: number;
  schedule: { kind: "once" } | { kind: "cron"; everyMinutes: number };
  /** The first one is the creation. One after the other: each was answered before the next was sent. */
  operations: readonly Operation[];
}

/** An edit or pause counts once the controller has taken it up; a deletion counts at its answer. */
const TAKEN_UP_WITHIN = 15 * SECOND;
/** A time this long past was accounted for before whatever was asked then. */
const ACCOUNTED_WITHIN = 2 * MINUTE;

export function expectedJob(history: JobHistory, until: Instant): ExpectedJob {
  const { jobId, maxRetries, schedule } = history;
  const targets =
    schedule.kind === "once"
      ? onceTargets(history.operations)
      : cronTargets(history.operations, schedule.everyMinutes, until);
  return { jobId, maxRetries, targets };
}

function onceTargets(operations: readonly Operation[]): Target[] {
  const targets: Target[] = [];
  for (const [index, operation] of operations.entries())
    if (operation.kind === "create" || operation.kind === "move")
      targets.push({
        at: operation.runAt,
        rule: onceRule(operation, operation.runAt, operations.slice(index + 1)),
      });
  return targets;
}

function onceRule(set: Operation, at: Instant, later: readonly Operation[]): Rule {
  if (set.answeredAt === null || later.some(({ answeredAt }) => answeredAt === null))
    return "optional";
  // Paused and resumed: it runs at its time, or on resume.
  const against = later.filter(
    ({ kind }, index) =>
      kind === "delete" ||
      kind === "move" ||
      (kind === "pause" && !later.slice(index).some((other) => other.kind === "resume")),
  );
  const [first] = against;
  if (first === undefined || first.sentAt > at + ACCOUNTED_WITHIN) return "once";
  return against.some((operation) => cancelledBefore(operation, at)) ? "never" : "optional";
}

function cancelledBefore(operation: Operation, at: Instant): boolean {
  if (operation.answeredAt === null) return false;
  const margin = operation.kind === "delete" ? 0 : TAKEN_UP_WITHIN;
  return operation.answeredAt + margin < at;
}

/** Only creation and deletion are asked of the suite's cron jobs. */
function cronTargets(
  operations: readonly Operation[],
  everyMinutes: number,
  until: Instant,
): Target[] {
  const creation = operations.find(({ kind }) => kind === "create");
  const deletion = operations.find(({ kind }) => kind === "delete");
  if (creation === undefined) return [];
  const period = everyMinutes * MINUTE;
  const targets: Target[] = [];
  for (let at = Math.floor(creation.sentAt / period) * period; at <= until; at += period)
    if (at > creation.sentAt) targets.push({ at, rule: cronRule(at, creation, deletion) });
  return targets;
}

function cronRule(at: Instant, creation: Operation, deletion: Operation | undefined): Rule {
  if (creation.answeredAt === null || at <= creation.answeredAt) return "optional";
  if (deletion === undefined || deletion.sentAt > at + ACCOUNTED_WITHIN) return "once";
  return cancelledBefore(deletion, at) ? "never" : "optional";
}
