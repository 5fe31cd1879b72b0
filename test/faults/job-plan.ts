import type { ConcurrencyPolicy } from "../../src/domain/job.ts";
import type { Random } from "../../src/domain/ports/clock.ts";
import type { Topology } from "./plan.ts";
import { between, pick } from "./seeded-random.ts";

/** How many receivers faults are done to. */
export const RECEIVERS = 4;

/** All times are seconds from the start of the round. */
export interface JobPlan {
  name: string;
  /** How it is created and changed: through the REST API, or as by kubectl through the API server. */
  via: "rest" | "apply";
  createAt: number;
  schedule: { kind: "once"; runAt: number } | { kind: "cron"; everyMinutes: number };
  maxRetries: 0 | 3;
  receiver: number;
  /** Its receiver takes long to answer (`LONG` in receiver.ts). */
  long: boolean;
  concurrencyPolicy: ConcurrencyPolicy;
  deliveryDeadlineSeconds: number;
  changes: readonly ChangePlan[];
}

export type ChangePlan = { at: number } & (
  { kind: "move"; runAt: number } | { kind: "pause" | "resume" | "delete" | "run" }
);

interface Size {
  topology: Topology;
  seconds: number;
  jobs: number;
}

export function drawJobs(random: Random, { topology, seconds, jobs }: Size): JobPlan[] {
  return Array.from({ length: jobs }, (_, index) => {
    const createAt = between(random, 0, seconds * 0.75);
    const name = `job ${index}`;
    const via =
      topology === "kubernetes" && random() < 0.5 ? ("apply" as const) : ("rest" as const);
    const maxRetries = random() < 0.5 ? (0 as const) : (3 as const);
    const receiver = Math.floor(random() * RECEIVERS);
    const deliveryDeadlineSeconds = random() < 0.2 ? 20 : 3_600;
    const concurrencyPolicy = "Allow" as const;
    const asked = { name, via, maxRetries, receiver, deliveryDeadlineSeconds };
    const common = { ...asked, long: false, concurrencyPolicy };
    if (index % 25 === 0) {
      const schedule = { kind: "cron", everyMinutes: 1 } as const;
      return { ...common, createAt: between(random, 0, 5), schedule, changes: [] };
    }
    if (index % 25 === 13) return { ...common, ...drawEarly(random, seconds) };
    if (index % 12 === 3) return { ...common, ...drawOverlapping(random, seconds) };
    // A whole second, so that many jobs are due at the same time.
    const runAt = Math.round(between(random, createAt + 3, Math.min(seconds, createAt + 30)));
    const changes =
      index % 12 === 6
        ? drawRun(random, { createAt, seconds })
        : random() < 0.25
          ? drawChanges(random, { createAt, runAt, seconds })
          : [];
    return { ...common, createAt, schedule: { kind: "once", runAt }, changes };
  });
}

/** A job that is changed long before its time: it must not fire at the old time. */
function drawEarly(
  random: Random,
  seconds: number,
): Pick<JobPlan, "createAt" | "schedule" | "changes"> {
  const createAt = between(random, 0, 3);
  const at = createAt + between(random, 0.5, 1.5);
  const change = pick<ChangePlan>(random, [
    { kind: "pause", at },
    { kind: "delete", at },
    { kind: "move", at, runAt: Math.round(at + 12) },
  ]);
  return { createAt, schedule: { kind: "once", runAt: seconds }, changes: [change] };
}

/**
 * A job that is moved twice, each time while the run of the old time may still be under way. It tests whether the new
 * run may start beside it.
 */
function drawOverlapping(
  random: Random,
  seconds: number,
): Pick<JobPlan, "createAt" | "long" | "concurrencyPolicy" | "schedule" | "changes"> {
  const createAt = between(random, 0, seconds * 0.55);
  const concurrencyPolicy = pick<ConcurrencyPolicy>(random, ["Allow", "Forbid", "Replace"]);
  const runAt = Math.round(createAt + between(random, 3, 6));
  const changes: ChangePlan[] = [];
  for (let moved = runAt; changes.length < 2;) {
    const at = moved + between(random, 0.3, 2);
    moved = Math.ceil(at + between(random, 0.5, 2));
    changes.push({ kind: "move", at, runAt: moved });
  }
  return { createAt, long: true, concurrencyPolicy, schedule: { kind: "once", runAt }, changes };
}

/** A run by hand. Nothing else is done to the job, so that nothing excuses a run that does not come. */
function drawRun(random: Random, job: { createAt: number; seconds: number }): ChangePlan[] {
  const at = between(random, job.createAt + 0.5, Math.min(job.seconds, job.createAt + 15));
  return [{ kind: "run", at }];
}

const CHANGES = ["delete", "move", "pause", "toggle"] as const;

/** Changes around the fire time, when they cross what the scheduler and the workers are doing. */
function drawChanges(
  random: Random,
  { createAt, runAt, seconds }: { createAt: number; runAt: number; seconds: number },
): ChangePlan[] {
  const at = Math.max(createAt + 0.5, runAt + between(random, -12, 2));
  const later = Math.min(seconds, at + between(random, 1, 8));
  switch (pick(random, CHANGES)) {
    case "delete":
      return [{ kind: "delete", at }];
    case "move":
      return [{ kind: "move", at, runAt: Math.round(Math.min(seconds + 5, at + 10)) }];
    case "pause":
      return [{ kind: "pause", at }];
    case "toggle":
      break;
  }
  return [
    { kind: "pause", at },
    { kind: "resume", at: Math.max(later, at + 0.5) },
  ];
}
