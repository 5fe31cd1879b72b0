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
/** New one-times stop coming so many ms before the end, so that they are moved about too. */
const LAST_ONES_MS = 1_500;
/** Fire times of 0.2 s, leases of 2.2 s, retries of 0.3 s, deliveries of 5 s at most: what is not over by then is stuck. */
const SETTLE_MS = 30_000;

/** So many seconds of faults on a database of its own, then time to settle; returns what there is to be known of it. */
export async function runRound(options: {
  seed: number;
  seconds: number;
  /** Of an empty, migrated database. */
  url: string;
}): Promise<Evidence> {
  const { seed, seconds, url } = options;
  const seeds = seededRandom(seed);
  /** Each actor has its own, so that how fast one is does not change what another does. */
  const random = () => seededRandom(Math.floor(seeds() * 2 ** 32));
  const of = {
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
  const receiver = await startReceiver(of.receiver);
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
    const jobs = await createJobs(api, of.jobs);
    const until = Date.now() + seconds * 1_000;
    await Promise.all([
      ...of.changes.map((each, index) =>
        changeJobs({ jobs, random: each, until, share: { index, of: of.changes.length } }),
      ),
      comeAndGo({ jobs, random: of.coming, until: until - LAST_ONES_MS }),
      disturb({ cluster, random: of.disturbance, until, note }),
      cutConnections({ server, random: of.cuts, until, note }),
      holdLocks({ server, random: of.locks, until, note }),
    ]);
    for (const [index, member] of cluster.members.entries()) {
      member.failing = false;
      member.lead(index === 0);
    }
    await bringToAnEnd(jobs, of.end);
    await untilSettled(server, jobs);
    await Promise.all(cluster.members.splice(0).map((member) => member.stop()));
    return {
      jobs: jobs.all.map((job) => job.told()),
      arrivals: receiver.arrivals,
      decided,
      crashes,
      faults,
      ...(await history(server)),
      ...(await standing(server)),
    };
  } finally {
    await Promise.all(cluster.members.map((member) => member.kill()));
    await receiver.close();
    await notifications.close();
    await server.end();
  }
}

/** Until no run is left and each job has been taken up as it is by now; or until it is clear that that will never be. */
async function untilSettled(server: Pool, jobs: Jobs): Promise<void> {
  const deadline = monotonic() + SETTLE_MS;
  while (monotonic() < deadline) {
    const unseen = new Map(jobs.all.flatMap(({ now }) => (now ? [[now.uid, now]] : [])));
    const { cursors, unfinished } = await standing(server);
    const behind = cursors.filter(({ jobUid, generation, once, deleted }) => {
      const job = unseen.get(jobUid);
      unseen.delete(jobUid);
      if (job === undefined) return !deleted;
      const open = job.spec.schedule.kind === "once" && (once === "armed" || once === "fired");
      return open || generation < job.generation;
    });
    if (unfinished.length + behind.length + unseen.size === 0) return;
    await delay(100);
  }
}

/** What the system has written down of what is over. */
async function history(server: Pool): Promise<Pick<Evidence, "executions" | "missed">> {
  const executions = await server.query<RecordedExecution>(
    `select job_uid as "jobUid", run_id as "runId", trigger, scheduled_at as "scheduledAt", attempt, status,
            http_status as "httpStatus", error_message as "errorMessage", executed_at as "executedAt"
       from executions order by executed_at, id`,
  );
  const missed = await server.query<RecordedSpan>(
    `select job_uid as "jobUid", first_at as first, last_at as last, count, reason, recorded_at as "recordedAt"
       from missed_spans order by recorded_at, id`,
  );
  return { executions: executions.rows, missed: missed.rows };
}

/** How the jobs stand, and what is still to be done. */
async function standing(server: Pool): Promise<Pick<Evidence, "cursors" | "unfinished">> {
  const cursors = await server.query<LastCursor>(
    `select job_uid as "jobUid", generation, position, once, deleted_at is not null as deleted from job_cursors`,
  );
  const unfinished = await server.query<UnfinishedRun>(
    `select job_uid as "jobUid", id as "runId", scheduled_at as "scheduledAt" from runs order by scheduled_at`,
  );
  return { cursors: cursors.rows, unfinished: unfinished.rows };
}
