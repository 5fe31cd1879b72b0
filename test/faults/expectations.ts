/**
 * Which fire times a job must have, derived only from what was asked of the system and when it said yes. It is plain
 * arithmetic on purpose, so that it shares no mistake with the scheduler.
 */
import { MINUTE, SECOND, type Instant } from "../../src/domain/instant.ts";
import type { ConcurrencyPolicy } from "../../src/domain/job.ts";
import type { ExpectedJob, Rule, Target } from "./evidence.ts";

/** `sentAt`: when the first try was sent. `answeredAt`: null when nobody knows whether it was done. */
interface Asked {
  sentAt: Instant;
  answeredAt: Instant | null;
}

export type Operation = Asked &
  ({ kind: "create" | "move"; runAt: Instant } | { kind: "pause" | "resume" | "delete" | "run" });

/** Milliseconds from an answer until what was asked for is sure to hold. */
export interface TakenUpWithin {
  edit: number;
  deletion: number;
}

/** For jobs in PostgreSQL. Both controllers schedule, so that one may be away. REST cancels runs before it answers. */
export const BY_POSTGRES: TakenUpWithin = { edit: 15 * SECOND, deletion: 0 };
/**
 * For changes by REST to jobs that are resources. A leader that is cut off goes on for 10 s with what it knew, and
 * prepares runs 15 s ahead. Its successor, which leads up to 20 s after the cut, takes those back.
 */
export const BY_LEADER: TakenUpWithin = { edit: 30 * SECOND, deletion: 0 };
/** For changes in the API server: the leader has to learn of a deletion as it does of any other change. */
export const BY_RESOURCE: TakenUpWithin = { edit: 30 * SECOND, deletion: 30 * SECOND };

export interface JobHistory {
  jobId: string;
  maxRetries: number;
  concurrencyPolicy: ConcurrencyPolicy;
  schedule: { kind: "once" } | { kind: "cron"; everyMinutes: number };
  /** In order; the first one is the creation. Each was answered before the next was sent. */
  operations: readonly Operation[];
  takenUpWithin: TakenUpWithin;
}

/** A fire time is accounted for within this: a request that is sent later does not affect it. */
const ACCOUNTED_WITHIN = 2 * MINUTE;

export function expectedJob(history: JobHistory, until: Instant): ExpectedJob {
  const { jobId, maxRetries, concurrencyPolicy, schedule, operations } = history;
  const targets =
    schedule.kind === "once"
      ? onceTargets(history)
      : cronTargets(history, schedule.everyMinutes, until);
  const run = operations.find(({ kind }) => kind === "run");
  const job = { jobId, maxRetries, concurrencyPolicy, targets };
  if (run === undefined) return job;
  // Nothing else is done to such a job: if the request was answered, there must be a run.
  const rule = run.answeredAt === null ? "optional" : "once";
  return { ...job, manual: { at: run.sentAt, rule } };
}

function onceTargets({ operations, takenUpWithin }: JobHistory): Target[] {
  const targets: Target[] = [];
  for (const [index, operation] of operations.entries())
    if (operation.kind === "create" || operation.kind === "move")
      targets.push({
        at: operation.runAt,
        rule: onceRule(operation, operation.runAt, operations.slice(index + 1), takenUpWithin),
      });
  return targets;
}

function onceRule(
  set: Operation,
  at: Instant,
  later: readonly Operation[],
  takenUpWithin: TakenUpWithin,
): Rule {
  if (
    set.answeredAt === null ||
    later.some(({ kind, answeredAt }) => kind !== "run" && answeredAt === null)
  )
    return "optional";
  // A pause counts only without a later resume: otherwise the job runs at its time, or on resume.
  const against = later.filter(
    ({ kind }, index) =>
      kind === "delete" ||
      kind === "move" ||
      (kind === "pause" && !later.slice(index).some((other) => other.kind === "resume")),
  );
  const [first] = against;
  if (first === undefined || first.sentAt > at + ACCOUNTED_WITHIN) return "once";
  return against.some((operation) => cancelledBefore(operation, at, takenUpWithin))
    ? "never"
    : "optional";
}

function cancelledBefore(operation: Operation, at: Instant, takenUpWithin: TakenUpWithin): boolean {
  if (operation.answeredAt === null) return false;
  const margin = operation.kind === "delete" ? takenUpWithin.deletion : takenUpWithin.edit;
  return operation.answeredAt + margin < at;
}

/** The suite only creates and deletes cron jobs. */
function cronTargets(
  { operations, takenUpWithin }: JobHistory,
  everyMinutes: number,
  until: Instant,
): Target[] {
  const creation = operations.find(({ kind }) => kind === "create");
  const deletion = operations.find(({ kind }) => kind === "delete");
  if (creation === undefined) return [];
  const period = everyMinutes * MINUTE;
  const targets: Target[] = [];
  for (let at = Math.floor(creation.sentAt / period) * period; at <= until; at += period)
    if (at > creation.sentAt)
      targets.push({ at, rule: cronRule({ at, creation, deletion, takenUpWithin }) });
  return targets;
}

function cronRule(input: {
  at: Instant;
  creation: Operation;
  deletion: Operation | undefined;
  takenUpWithin: TakenUpWithin;
}): Rule {
  const { at, creation, deletion, takenUpWithin } = input;
  if (creation.answeredAt === null || at <= creation.answeredAt) return "optional";
  if (deletion === undefined || deletion.sentAt > at + ACCOUNTED_WITHIN) return "once";
  return cancelledBefore(deletion, at, takenUpWithin) ? "never" : "optional";
}
