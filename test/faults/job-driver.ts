import { setTimeout as delay } from "node:timers/promises";
import type { Api, Answered } from "./api.ts";
import type { JobHistory, Operation } from "./expectations.ts";
import type { ChangePlan, JobPlan } from "./plan.ts";

/** What became of one planned job. */
export type Driven =
  | { kind: "created"; history: JobHistory }
  /** Refused: its time had passed before the gateway could be reached. Nothing is expected of it. */
  | { kind: "refused"; name: string }
  /** No answer that counts: look whether it is there. */
  | { kind: "unknown"; plan: JobPlan; sentAt: number };

export interface RoundTime {
  /** Resolves so many seconds after the start of the round. */
  at(seconds: number): Promise<void>;
  /** Epoch milliseconds, whole seconds when `seconds` is whole. */
  instant(seconds: number): number;
}

export function createRoundTime(start: number, now: () => number): RoundTime {
  return {
    at: async (seconds) => {
      const ms = start + seconds * 1_000 - now();
      if (ms > 0) await delay(ms);
    },
    instant: (seconds) => start + seconds * 1_000,
  };
}

/** Creates one job and does to it what the plan says, each step after the answer to the one before. */
export async function driveJob(options: {
  plan: JobPlan;
  api: Api;
  time: RoundTime;
  receiverUrl: string;
}): Promise<Driven> {
  const { plan, api, time, receiverUrl } = options;
  await time.at(plan.createAt);
  const sentAt = time.instant(plan.createAt);
  const created = await api.call({
    method: "POST",
    path: "/jobs",
    idempotencyKey: plan.name,
    body: {
      name: plan.name,
      type: "webhook",
      webhook_url: receiverUrl,
      webhook_payload: { name: plan.name },
      timeout_seconds: 5,
      max_retries: plan.maxRetries,
      min_backoff_seconds: 1,
      max_backoff_seconds: 4,
      delivery_deadline_seconds: plan.deliveryDeadlineSeconds,
      ...(plan.schedule.kind === "once"
        ? {
            schedule_type: "one_time",
            run_at: new Date(time.instant(plan.schedule.runAt)).toISOString(),
          }
        : { schedule_type: "cron", cron_expression: cronOf(plan.schedule.everyMinutes) }),
    },
  });
  if (created === undefined || (created.status === 400 && created.repeated))
    return { kind: "unknown", plan, sentAt };
  if (created.status === 400) return { kind: "refused", name: plan.name };
  if (created.status !== 201)
    throw new Error(`POST /jobs answered ${created.status}: ${JSON.stringify(created.body)}`);
  const jobId = (created.body as { id: string }).id;

  const operations: Operation[] = [creation(plan, time, created)];
  for (const change of plan.changes) {
    await time.at(change.at);
    const operation = await perform({ change, api, time, jobId });
    operations.push(operation);
    if (operation.kind === "delete") break;
  }
  return { kind: "created", history: historyOf(plan, jobId, operations) };
}

export function historyOf(
  plan: JobPlan,
  jobId: string,
  operations: readonly Operation[],
): JobHistory {
  return { jobId, maxRetries: plan.maxRetries, schedule: plan.schedule, operations };
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

function cronOf(everyMinutes: number): string {
  return everyMinutes === 1 ? "* * * * *" : `*/${everyMinutes} * * * *`;
}

async function perform(options: {
  change: ChangePlan;
  api: Api;
  time: RoundTime;
  jobId: string;
}): Promise<Operation> {
  const { change, api, time, jobId } = options;
  const sentAt = time.instant(change.at);
  const path = `/jobs/${jobId}`;
  if (change.kind === "move") {
    const runAt = time.instant(change.runAt);
    const body = { run_at: new Date(runAt).toISOString() };
    const answer = await api.call({ method: "PATCH", path, body });
    return { kind: "move", sentAt, answeredAt: done(answer, 200), runAt };
  }
  if (change.kind === "delete") {
    const answer = await api.call({ method: "DELETE", path });
    // Gone already: by an earlier try whose answer got lost.
    return { kind: "delete", sentAt, answeredAt: done(answer, 200, 404) };
  }
  const answer = await api.call({ method: "POST", path: `${path}/${change.kind}` });
  return { kind: change.kind, sentAt, answeredAt: done(answer, 200) };
}

function done(answer: Answered | undefined, ...good: number[]): number | null {
  return answer !== undefined && good.includes(answer.status) ? answer.answeredAt : null;
}
