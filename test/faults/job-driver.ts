import { setTimeout as delay } from "node:timers/promises";
import type { JobHistory, Operation } from "./expectations.ts";
import type { Change, JobClient } from "./job-client.ts";
import type { ChangePlan, JobPlan } from "./job-plan.ts";
import { LONG } from "./receiver.ts";

/** What became of one planned job. */
export type Driven =
  | { kind: "created"; history: JobHistory }
  /** Its time had passed before the gateway could be reached. Nothing is expected of it. */
  | { kind: "refused" }
  /** There was no answer that says whether it was created. */
  | { kind: "unknown"; plan: JobPlan; sentAt: number };

export interface RoundTime {
  /** Resolves `seconds` after the start of the round. */
  at(seconds: number): Promise<void>;
  /** The moment `seconds` after the start, which is a whole second, in milliseconds since the epoch. */
  instant(seconds: number): number;
  /** Seconds since the start of the round. */
  now(): number;
}

export function createRoundTime(start: number, now: () => number): RoundTime {
  return {
    at: async (seconds) => {
      const ms = start + seconds * 1_000 - now();
      if (ms > 0) await delay(ms);
    },
    instant: (seconds) => start + seconds * 1_000,
    now: () => (now() - start) / 1_000,
  };
}

/** Creates one job and changes it as the plan says. Each change waits for the answer to the one before. */
export async function driveJob(options: {
  plan: JobPlan;
  client: JobClient;
  time: RoundTime;
  receiverUrl: string;
}): Promise<Driven> {
  const { plan, client, time, receiverUrl } = options;
  await time.at(plan.createAt);
  const sentAt = time.instant(plan.createAt);
  const schedule =
    plan.schedule.kind === "once"
      ? { kind: "once" as const, runAt: time.instant(plan.schedule.runAt) }
      : { kind: "cron" as const, expression: cronOf(plan.schedule.everyMinutes) };
  const created = await client.create({
    plan,
    schedule,
    receiverUrl: plan.long ? `${receiverUrl}${LONG}` : receiverUrl,
  });
  if (created.kind === "refused") return created;
  if (created.kind === "unknown") return { kind: "unknown", plan, sentAt };

  const { jobId, answeredAt } = created;
  const operations: Operation[] = [creation(plan, time, { sentAt, answeredAt })];
  for (const change of plan.changes) {
    await time.at(change.at);
    const asked = changeOf(change, time);
    operations.push({
      ...asked,
      sentAt: time.instant(change.at),
      answeredAt: await client.change(jobId, asked),
    });
    if (change.kind === "delete") break;
  }
  return { kind: "created", history: historyOf({ plan, client, jobId, operations }) };
}

export function historyOf(job: {
  plan: JobPlan;
  client: JobClient;
  jobId: string;
  operations: readonly Operation[];
}): JobHistory {
  const { plan, client, jobId, operations } = job;
  const { maxRetries, concurrencyPolicy, schedule } = plan;
  const { takenUpWithin } = client;
  return { jobId, maxRetries, concurrencyPolicy, schedule, operations, takenUpWithin };
}

export function creation(
  plan: JobPlan,
  time: RoundTime,
  answer: { sentAt: number; answeredAt: number | null },
): Operation {
  const { sentAt, answeredAt } = answer;
  const runAt = plan.schedule.kind === "once" ? time.instant(plan.schedule.runAt) : 0;
  return { kind: "create", sentAt, answeredAt, runAt };
}

function changeOf(change: ChangePlan, time: RoundTime): Change {
  return change.kind === "move"
    ? { kind: "move", runAt: time.instant(change.runAt) }
    : { kind: change.kind };
}

function cronOf(everyMinutes: number): string {
  return everyMinutes === 1 ? "* * * * *" : `*/${everyMinutes} * * * *`;
}
