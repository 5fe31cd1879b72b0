/** One round: a system is started, jobs are asked of it, it is damaged, and what came of it is judged. */
import { mkdir } from "node:fs/promises";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { DependencyUnavailable } from "../../src/domain/ports/dependency-down.ts";
import { createPostgresClock } from "../../src/postgres/clock.ts";
import { createApi, type Api } from "./api.ts";
import { check, type Arrival, type Evidence, type Verdict } from "./checker.ts";
import { readRecords } from "./evidence.ts";
import { expectedJob, type JobHistory } from "./expectations.ts";
import { driveFaults } from "./fault-driver.ts";
import { createRoundTime, creation, driveJob, historyOf, type Driven } from "./job-driver.ts";
import { createPlan, RECEIVERS, type Plan } from "./plan.ts";
import { startReceiver, type Receiver } from "./receiver.ts";
import { seededRandom } from "./seeded-random.ts";
import { startSystemUnderTest, type SystemUnderTest } from "./system-under-test.ts";

export interface RoundReport {
  plan: Plan;
  verdict: Verdict;
  faults: { committed: number; skipped: number };
  /** Jobs that were created, and those that could not be before their time. */
  jobs: { created: number; refused: number };
  /** Milliseconds from the last fault's end until everything was accounted for. */
  settledAfterMs: number;
  /** Processes that ended though nobody asked them to. */
  crashes: string[];
}

/** Between PostgreSQL's clock as two processes of one machine measure it, and a turn of the event loop. */
const CLOCK_ERROR_MS = 25;
const READY_WITHIN_MS = 60_000;
/** A circuit (30 s), a lease (20 s) and the retries of what was let through then. */
const SETTLE_WITHIN_MS = 180_000;
const LOOK_EVERY_MS = 500;

export async function runRound(options: {
  seed: number;
  seconds: number;
  jobs: number;
  /** Logs of the processes, and the database's files. */
  directory: string;
  say?: (line: string) => void;
}): Promise<RoundReport> {
  const { directory } = options;
  await mkdir(directory, { recursive: true });
  const say = (line: string): void => {
    appendFileSync(join(directory, "round.log"), `${line}\n`);
    options.say?.(line);
  };
  const plan = createPlan(options);
  const system = await startSystemUnderTest(directory);
  const followed = follow(system);
  const clock = createPostgresClock({ pool: followed, intervalMs: 1_000 });
  await clock.start();
  const log: Arrival[] = [];
  const random = seededRandom(plan.seed);
  const receivers = await Promise.all(
    Array.from({ length: RECEIVERS }, () => startReceiver({ clock, random, log })),
  );
  const giveUp = new AbortController();
  const api = createApi({
    base: system.baseUrl,
    key: system.apiKey,
    clock,
    signal: giveUp.signal,
  });
  try {
    await ready(system);
    const start = Math.ceil(clock.now() / 1_000) * 1_000 + 1_000;
    const time = createRoundTime(start, () => clock.now());
    say(`seed ${plan.seed}: starts at ${new Date(start).toISOString()}`);
    const jobs = Promise.all(
      plan.jobs.map((job) =>
        driveJob({ plan: job, api, time, receiverUrl: receivers[job.receiver]?.url ?? "" }),
      ),
    );
    const faults = await driveFaults({ faults: plan.faults, system, receivers, time, say });
    const healedAt = clock.now();
    const driven = await jobs;
    await time.at(plan.seconds);

    const histories = await resolve(driven, api, time);
    const until = Math.min(start + plan.seconds * 1_000, clock.now());
    const expected = histories.map((history) => expectedJob(history, until));
    const gather = async (): Promise<Evidence> => ({
      jobs: expected,
      arrivals: log,
      ...(await readRecords(system.database.pool())),
      until,
      clockError: CLOCK_ERROR_MS,
    });
    const verdict = await settled(gather);
    return {
      plan,
      verdict,
      faults,
      jobs: { created: histories.length, refused: plan.jobs.length - histories.length },
      settledAfterMs: Math.max(0, clock.now() - healedAt),
      crashes: Object.values(system.members).flatMap((member) => member.crashes),
    };
  } finally {
    giveUp.abort();
    clock.stop();
    await Promise.all(receivers.map((receiver: Receiver) => receiver.close()));
    await system.close();
  }
}

/** The suite's pool, whichever it is after the last restart of the database. */
function follow(system: SystemUnderTest): ReturnType<SystemUnderTest["database"]["pool"]> {
  return new Proxy(system.database.pool(), {
    get: (_first, name) => {
      const pool = system.database.pool();
      const value: unknown = Reflect.get(pool, name);
      return typeof value === "function" ? (value.bind(pool) as unknown) : value;
    },
  });
}

async function ready(system: SystemUnderTest): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const answer = await fetch(`${system.baseUrl}/jobs`, {
      headers: { "x-api-key": system.apiKey },
    }).catch(() => undefined);
    // Read, or its connection would outlive the round.
    await answer?.text().catch(() => undefined);
    if (answer?.status === 200) return;
    if (performance.now() > deadline) throw new Error("the gateway does not get ready");
    await delay(100);
  }
}

/** Creations whose answer got lost: they happened, or they did not; by now that does not change. */
async function resolve(
  driven: readonly Driven[],
  api: Api,
  time: ReturnType<typeof createRoundTime>,
): Promise<JobHistory[]> {
  const listed = await api.call({ method: "GET", path: "/jobs" });
  const ids = new Map(
    ((listed?.body ?? []) as { id: string; name: string }[]).map(({ id, name }) => [name, id]),
  );
  return driven.flatMap((job) => {
    if (job.kind === "created") return [job.history];
    const id = job.kind === "unknown" ? ids.get(job.plan.name) : undefined;
    if (job.kind === "refused" || id === undefined) return [];
    const answer = { sentAt: job.sentAt, answeredAt: listed?.answeredAt ?? null };
    return [historyOf(job.plan, id, [creation(job.plan, time, answer)])];
  });
}

/** Looks again until nothing is lost or stuck any more, or the time for that is over. */
async function settled(gather: () => Promise<Evidence>): Promise<Verdict> {
  const deadline = performance.now() + SETTLE_WITHIN_MS;
  for (;;) {
    let verdict: Verdict;
    try {
      verdict = check(await gather());
    } catch (error) {
      // The database is still getting on its feet.
      if (!(error instanceof DependencyUnavailable) || performance.now() > deadline) throw error;
      await delay(LOOK_EVERY_MS);
      continue;
    }
    const waiting = verdict.violations.some(
      ({ kind }) => kind === "lost" || kind === "stuck" || kind === "unrecorded-delivery",
    );
    if (!waiting || performance.now() > deadline) return verdict;
    await delay(LOOK_EVERY_MS);
  }
}
