/** One round: starts a system, creates jobs, damages the system, and judges the outcome. */
import { mkdir, writeFile } from "node:fs/promises";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { monotonic } from "../../cmd/system.ts";
import { DependencyUnavailable } from "../../src/domain/ports/dependency-unavailable.ts";
import { createPostgresClock } from "../../src/postgres/clock.ts";
import type { OwnControlPlane } from "../kubernetes/own-control-plane.ts";
import { createApi, type Api } from "./api.ts";
import { createAppliedJobs } from "./applied-jobs.ts";
import { check, type Verdict } from "./checker.ts";
import type { Arrival, Evidence } from "./evidence.ts";
import { BY_LEADER, BY_POSTGRES, expectedJob, type JobHistory } from "./expectations.ts";
import { driveFaults, type FaultCounts } from "./fault-driver.ts";
import type { JobClient } from "./job-client.ts";
import { createRoundTime, creation, driveJob, historyOf, type Driven } from "./job-driver.ts";
import { RECEIVERS, type JobPlan } from "./job-plan.ts";
import { createPlan, type Plan } from "./plan.ts";
import { startReceiver, type Receiver } from "./receiver.ts";
import { readRecords } from "./records.ts";
import { measureRecovery } from "./recovery.ts";
import { createRestJobs } from "./rest-jobs.ts";
import { seededRandom } from "./seeded-random.ts";
import { startSystemUnderTest, type SystemUnderTest } from "./system-under-test.ts";

export interface RoundReport {
  plan: Plan;
  verdict: Verdict;
  faults: FaultCounts;
  /** Jobs that were created, and those that could not be created before their time. */
  jobs: { created: number; refused: number };
  /** Milliseconds from the last fault's end until a job that was created then was delivered; null if it never was. */
  recoveredAfterMs: number | null;
  /** Milliseconds from the last fault's end until everything was accounted for. */
  settledAfterMs: number;
  /** Processes that ended although the suite did not ask for it. */
  crashes: string[];
  /** Length of the whole round, including the start and end of everything. */
  seconds: number;
}

/** How far the measurements of PostgreSQL's clock by two processes may differ, and one turn of the event loop. */
const CLOCK_ERROR_MS = 25;
const READY_WITHIN_MS = 60_000;
/** Enough for an open circuit (30 s), a lease (20 s) and the retries after them. */
const SETTLE_WITHIN_MS = 180_000;
/** After the round's own time: a gateway that cannot be reached by then will not be reached. */
const GIVE_UP_AFTER_MS = 120_000;
const LOOK_EVERY_MS = 500;
const SAY_EVERY_MS = 10_000;
/** Seconds before the end of the round at which the last outage begins, if the others are over. */
const LAST_OUTAGE_BEFORE_END = 5;

/** Throws when there is no verdict. */
export async function runRound(options: {
  seed: number;
  seconds: number;
  jobs: number;
  /** Present: jobs are resources of it, and a leader is elected. */
  controlPlane?: OwnControlPlane | undefined;
  /** Logs of the processes, the database's files, and the evidence. */
  directory: string;
  say?: (line: string) => void;
}): Promise<RoundReport> {
  const { seed, seconds, directory, controlPlane } = options;
  const began = performance.now();
  await mkdir(directory, { recursive: true });
  const say = (line: string): void => {
    appendFileSync(join(directory, "round.log"), `${line}\n`);
    options.say?.(line);
  };
  const topology = controlPlane ? "kubernetes" : "standalone";
  const plan = createPlan({ topology, seed, seconds, jobs: options.jobs });
  const system = await startSystemUnderTest({ directory, controlPlane });
  const pool = followingPool(system);
  const clock = createPostgresClock({ pool, monotonic, intervalMs: 1_000 });
  await clock.start();
  const log: Arrival[] = [];
  const random = seededRandom(seed);
  // One more than are damaged, for the jobs that measure the recovery.
  const receivers = await Promise.all(
    Array.from({ length: RECEIVERS + 1 }, () => startReceiver({ clock, random, log })),
  );
  const urlOf = (receiver: number): string => receivers[receiver]?.url ?? "";
  const giveUp = new AbortController();
  const { signal } = giveUp;
  const patience = setTimeout(() => giveUp.abort(), seconds * 1_000 + GIVE_UP_AFTER_MS);
  const api = createApi({ base: system.baseUrl, key: system.apiKey, clock, signal });
  const rest = createRestJobs({ api, takenUpWithin: controlPlane ? BY_LEADER : BY_POSTGRES });
  const applied =
    system.cluster &&
    createAppliedJobs({
      client: system.cluster.client,
      namespace: system.cluster.namespace.name,
      clock,
      signal,
    });
  const clientOf = ({ via }: JobPlan): JobClient => (via === "apply" && applied ? applied : rest);
  try {
    await untilReady(system);
    const start = Math.ceil(clock.now() / 1_000) * 1_000 + 1_000;
    const time = createRoundTime(start, () => clock.now());
    const sayAt = (line: string): void => {
      say(`${time.now().toFixed(1).padStart(6)} s  ${line}`);
    };
    say(`seed ${seed}, ${topology}: starts at ${new Date(start).toISOString()}`);
    const jobs = Promise.all(
      plan.jobs.map((job) =>
        driveJob({ plan: job, client: clientOf(job), time, receiverUrl: urlOf(job.receiver) }),
      ),
    );
    // Awaited below; a failure meanwhile must not end the process.
    jobs.catch(() => undefined);
    const last = { fault: plan.lastOutage, at: seconds - LAST_OUTAGE_BEFORE_END };
    const faults = await driveFaults({ faults: plan.faults, last, system, receivers, time, say });
    const healedAt = clock.now();
    const { recovery, probes } = await measureRecovery({
      client: rest,
      clock,
      time,
      receiverUrl: urlOf(RECEIVERS),
      log,
    });
    const recoveredAfterMs = recovery.deliveredAt && recovery.deliveredAt - recovery.from;
    sayAt(`delivers a new job ${recoveredAfterMs ?? "?"} ms after the last fault`);
    const driven = [...(await jobs), ...probes];
    await time.at(seconds);

    const histories = await historiesOf({ driven, api, time, clientOf });
    const until = clock.now();
    const expected = histories.map((history) => expectedJob(history, until));
    const gather = async (): Promise<Evidence> => ({
      jobs: expected,
      arrivals: log,
      ...(await readRecords(system.database.pool())),
      until,
      clockError: CLOCK_ERROR_MS,
      recovery,
    });
    const { verdict, evidence } = await untilSettled(gather, sayAt);
    const settledAfterMs = Math.max(0, clock.now() - healedAt);
    await writeFile(
      join(directory, "evidence.json"),
      JSON.stringify({ plan, faults, verdict, histories, evidence }, null, 1),
    );
    return {
      plan,
      verdict,
      faults,
      jobs: { created: histories.length, refused: driven.length - histories.length },
      recoveredAfterMs,
      settledAfterMs,
      crashes: Object.values(system.members).flatMap((member) => member.crashes),
      seconds: (performance.now() - began) / 1_000,
    };
  } finally {
    clearTimeout(patience);
    giveUp.abort();
    clock.stop();
    await Promise.all(receivers.map((receiver: Receiver) => receiver.close()));
    await system.close();
  }
}

/** Forwards to the suite's present pool: after each restart of the database there is a new one. */
function followingPool(system: SystemUnderTest): ReturnType<SystemUnderTest["database"]["pool"]> {
  return new Proxy(system.database.pool(), {
    get: (_first, name) => {
      const pool = system.database.pool();
      const value: unknown = Reflect.get(pool, name);
      return typeof value === "function" ? (value.bind(pool) as unknown) : value;
    },
  });
}

async function untilReady(system: SystemUnderTest): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  const isReady = async (): Promise<boolean> => {
    const answer = await fetch(`${system.baseUrl}/jobs`, {
      headers: { "x-api-key": system.apiKey },
    }).catch(() => undefined);
    // Read to its end: otherwise the connection would outlive the round.
    await answer?.text().catch(() => undefined);
    if (answer?.status !== 200) return false;
    return system.cluster === undefined || (await system.leader()) !== undefined;
  };
  while (!(await isReady())) {
    if (performance.now() > deadline)
      throw new Error("the gateway does not get ready, or nobody gets to lead");
    await delay(100);
  }
}

/** What was done to each job that exists. Whether a creation without an answer succeeded is certain by now. */
async function historiesOf(options: {
  driven: readonly Driven[];
  api: Api;
  time: ReturnType<typeof createRoundTime>;
  clientOf: (plan: JobPlan) => JobClient;
}): Promise<JobHistory[]> {
  const { driven, api, time, clientOf } = options;
  const listed = await api.call({ method: "GET", path: "/jobs" });
  const ids = new Map(
    ((listed?.body ?? []) as { id: string; name: string }[]).map(({ id, name }) => [name, id]),
  );
  return driven.flatMap((job) => {
    if (job.kind === "created") return [job.history];
    const jobId = job.kind === "unknown" ? ids.get(job.plan.name) : undefined;
    if (job.kind === "refused" || jobId === undefined) return [];
    const { plan } = job;
    const answer = { sentAt: job.sentAt, answeredAt: listed?.answeredAt ?? null };
    const operations = [creation(plan, time, answer)];
    return [historyOf({ plan, client: clientOf(plan), jobId, operations })];
  });
}

const WAITED_FOR = new Set(["lost", "stuck", "unrecorded-delivery", "unasked"]);

/** Checks again until no violation is left that may still go away (`WAITED_FOR`), or the time for that is over. */
async function untilSettled(
  gather: () => Promise<Evidence>,
  say: (line: string) => void,
): Promise<{ verdict: Verdict; evidence: Evidence }> {
  const began = performance.now();
  let said = began;
  for (;;) {
    const over = performance.now() - began > SETTLE_WITHIN_MS;
    try {
      const evidence = await gather();
      const verdict = check(evidence);
      const waiting = verdict.violations.filter(({ kind }) => WAITED_FOR.has(kind)).length;
      if (waiting === 0 || over) return { verdict, evidence };
      if (performance.now() - said > SAY_EVERY_MS) {
        said = performance.now();
        say(`${waiting} not accounted for yet`);
      }
    } catch (error) {
      // The database is still starting.
      if (!(error instanceof DependencyUnavailable) || over) throw error;
    }
    await delay(LOOK_EVERY_MS);
  }
}
