import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/domain/ports/clock.ts";
import type { Arrival, Recovery } from "./evidence.ts";
import type { JobClient } from "./job-client.ts";
import { driveJob, type Driven, type RoundTime } from "./job-driver.ts";
import { RECEIVERS } from "./job-plan.ts";

/** Longer than what is promised, so that the report can say by how much a promise was broken. */
const WATCHED_MS = 60_000;
const AHEAD_SECONDS = 2;
const LOOK_EVERY_MS = 50;

/**
 * How long it takes after the last fault until the whole system works again: until a job has been created by REST,
 * scheduled, started and delivered to a receiver that was never damaged. Another job is created if the time of the
 * first passes before there is an answer.
 */
export async function measureRecovery(options: {
  client: JobClient;
  clock: Clock;
  time: RoundTime;
  receiverUrl: string;
  log: readonly Arrival[];
}): Promise<{ recovery: Recovery; probes: Driven[] }> {
  const { client, clock, time, receiverUrl, log } = options;
  const from = clock.now();
  const deadline = performance.now() + WATCHED_MS;
  const probes: Driven[] = [];
  let jobId: string | undefined;
  while (jobId === undefined && performance.now() < deadline) {
    const createAt = time.now();
    const plan = {
      name: `probe ${probes.length + 1}`,
      via: "rest" as const,
      createAt,
      schedule: { kind: "once" as const, runAt: Math.ceil(createAt + AHEAD_SECONDS) },
      maxRetries: 0 as const,
      receiver: RECEIVERS,
      long: false,
      concurrencyPolicy: "Allow" as const,
      deliveryDeadlineSeconds: 3_600,
      changes: [],
    };
    const probe = await driveJob({ plan, client, time, receiverUrl });
    probes.push(probe);
    if (probe.kind === "created") jobId = probe.history.jobId;
    else await delay(LOOK_EVERY_MS);
  }
  const arrival = () => log.find((each) => each.jobId === jobId);
  while (arrival() === undefined && performance.now() < deadline) await delay(LOOK_EVERY_MS);
  return { recovery: { from, deliveredAt: arrival()?.at ?? null }, probes };
}
