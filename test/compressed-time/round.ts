import { setTimeout as delay } from "node:timers/promises";
import { monotonic, timers } from "../../cmd/system.ts";
import { createNotifications } from "../../src/postgres/notifications.ts";
import { createPool, type Pool } from "../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../src/postgres/postgres-job-store.ts";
import { createRunLedger } from "../../src/postgres/run-ledger.ts";
import { seededRandom } from "../faults/seeded-random.ts";
import {
  bringToAnEnd,
  changeJobs,
  comeAndGo,
  createJobs,
  cutConnections,
  disturb,
  holdLocks,
  type Cluster,
  type Jobs,
} from "./actors.ts";
import type {
  Decided,
  Evidence,
  LastCursor,
  RecordedExecution,
  RecordedSpan,
  UnfinishedRun,
} from "./evidence.ts";
import { startMember } from "./member.ts";
import { startReceiver } from "./receiver.ts";

const MEMBERS = 3;
/** No one-times are added in the last ms of a round, so that the last ones are moved about, too. */
const LAST_ONES_MS = 1_500;
/**
 * What is not over by then is stuck: fire times are 0.2 s apart, a lease takes 2.2 s, a retry 0.3 s, a delivery 5 s at
 * most.
 */
const SETTLE_MS = 30_000;

/** Runs the system for `seconds` with faults, then gives it time to settle. Returns all that is known of the round. */
export async function runRound(options: {
  seed: number;
  seconds: number;
  /** URL of an empty, migrated database. */
  url: string;
}): Promise<Evidence> {
  const { seed, seconds, url } = options;
  const seeds = seededRandom(seed);
  /** For each actor one of its own, so that what it does does not depend on how fast the others are. */
  const random = () => seededRandom(Math.floor(seeds() * 2 ** 32));
  const randomOf = {
    receiver: random(),
    jobs: random(),
    changes: [random(), random(), random()],
    coming: random(),
    disturbance: random(),
    cuts: random(),
    end: random(),
    locks: random(),
  };
  const server = createPool({ url, applicationName: "the actors", max: 7, plans: "fixed" });
  const notifications = createNotifications({ url, applicationName: "the actors" });
  const api = {
    jobs: createPostgresJobStore({ pool: server, notifications, timers }),
    ledger: createRunLedger({ pool: server }),
  };
  const receiver = await startReceiver(randomOf.receiver);
  const decided: Decided[] = [];
  const crashes: string[] = [];
  const faults: Record<string, number> = {};
  const note = (fault: string, times = 1): void => {
    faults[fault] = (faults[fault] ?? 0) + times;
  };
  let started = 0;
  const cluster: Cluster = {
    members: [],
    start: () =>
      startMember({
        url,
        name: `process-${(started += 1)}`,
        random: random(),
        receiver,
        server,
        decided,
        crashed: (what) => crashes.push(what),
        statementFailed: () => {
          note("statement failed");
        },
      }),
  };
  try {
    for (let n = 0; n < MEMBERS; n += 1) cluster.members.push(await cluster.start());
    cluster.members[0]?.lead(true);
    const jobs = await createJobs(api, randomOf.jobs);
    const until = Date.now() + seconds * 1_000;
    await Promise.all([
      ...randomOf.changes.map((each, index) =>
        changeJobs({ jobs, random: each, until, share: { index, of: randomOf.changes.length } }),
      ),
      comeAndGo({ jobs, random: randomOf.coming, until: until - LAST_ONES_MS }),
      disturb({ cluster, random: randomOf.disturbance, until, note }),
      cutConnections({ server, random: randomOf.cuts, until, note }),
      holdLocks({ server, random: randomOf.locks, until, note }),
    ]);
    for (const [index, member] of cluster.members.entries()) {
      member.failing = false;
      member.lead(index === 0);
    }
    await bringToAnEnd(jobs, randomOf.end);
    await untilSettled(server, jobs);
    await Promise.all(cluster.members.splice(0).map((member) => member.stop()));
    return {
      jobs: jobs.all.map((job) => job.record()),
      arrivals: receiver.arrivals,
      decided,
      crashes,
      faults,
      ...(await history(server)),
      ...(await presentState(server)),
    };
  } finally {
    await Promise.all(cluster.members.map((member) => member.kill()));
    await receiver.close();
    await notifications.close();
    await server.end();
  }
}

/** Waits until no run is left and the scheduler has taken up each job as it is now, or until `SETTLE_MS` are over. */
async function untilSettled(server: Pool, jobs: Jobs): Promise<void> {
  const deadline = monotonic() + SETTLE_MS;
  while (monotonic() < deadline) {
    const withoutCursor = new Map(jobs.all.flatMap(({ now }) => (now ? [[now.uid, now]] : [])));
    const { cursors, unfinished } = await presentState(server);
    const behind = cursors.filter(({ jobUid, generation, once, deleted }) => {
      const job = withoutCursor.get(jobUid);
      withoutCursor.delete(jobUid);
      if (job === undefined) return !deleted;
      const open = job.spec.schedule.kind === "once" && (once === "armed" || once === "fired");
      return open || generation < job.generation;
    });
    if (unfinished.length + behind.length + withoutCursor.size === 0) return;
    await delay(100);
  }
}

/** What the system has recorded of what is over. */
async function history(server: Pool): Promise<Pick<Evidence, "executions" | "missed">> {
  const executions = await server.query<RecordedExecution>(
    `select job_uid as "jobUid", run_id as "runId", trigger, scheduled_at as "scheduledAt", attempt, status,
            http_status as "httpStatus", error_message as "errorMessage", executed_at as "executedAt",
            uuid_extract_timestamp(id) as "recordedAt"
       from executions order by executed_at, id`,
  );
  const missed = await server.query<RecordedSpan>(
    `select job_uid as "jobUid", first_at as first, last_at as last, count, reason, recorded_at as "recordedAt"
       from missed_spans order by recorded_at, id`,
  );
  return { executions: executions.rows, missed: missed.rows };
}

/** The jobs' cursors, and the runs that are not over. */
async function presentState(server: Pool): Promise<Pick<Evidence, "cursors" | "unfinished">> {
  const cursors = await server.query<LastCursor>(
    `select job_uid as "jobUid", generation, position, once, deleted_at is not null as deleted from job_cursors`,
  );
  const unfinished = await server.query<UnfinishedRun>(
    `select job_uid as "jobUid", id as "runId", scheduled_at as "scheduledAt" from runs order by scheduled_at`,
  );
  return { cursors: cursors.rows, unfinished: unfinished.rows };
}
