/** What is done to the jobs and to the processes while they work. It is random, and depends on the seed alone. */
import { setTimeout as delay } from "node:timers/promises";
import type { JobSpec, Schedule } from "../../src/domain/job.ts";
import type { Random } from "../../src/domain/ports/clock.ts";
import { transaction, type Pool } from "../../src/postgres/pool.ts";
import { between, pick, shuffled } from "../faults/seeded-random.ts";
import type { JobKind } from "./evidence.ts";
import { createJob, POLICIES, specOf, type Api, type TrackedJob } from "./jobs.ts";
import type { Member } from "./member.ts";
import { mayBeGone, MOODS, urlOf } from "./receiver.ts";
import { everyMs, periodOf } from "./short-crons.ts";

/** All jobs of the round, oldest first, and a way to add more. */
export interface Jobs {
  readonly all: readonly TrackedJob[];
  add(kind: JobKind): Promise<void>;
}

const AT_FIRST: Partial<Record<JobKind, number>> = {
  edited: 6,
  paused: 4,
  gone: 3,
  quiet: 2,
  mixed: 6,
};

export async function createJobs(api: Api, random: Random): Promise<Jobs> {
  const all: TrackedJob[] = [];
  const jobs: Jobs = {
    all,
    add: async (kind) => {
      const id = `${kind}-${all.length + 1}`;
      const spec = specOf({ random, name: id, kind, now: Date.now() });
      all.push(await createJob(api, { kind, id, spec }));
    },
  };
  for (const [kind, count] of Object.entries(AT_FIRST))
    for (let n = 0; n < count; n += 1) await jobs.add(kind as JobKind);
  return jobs;
}

/** Changes a share of the jobs, one after the other: each change waits for the answer to the one before. */
export async function changeJobs(options: {
  jobs: Jobs;
  random: Random;
  until: number;
  /** Several calls share the jobs: this is number `index` of `of`. */
  share: { index: number; of: number };
}): Promise<void> {
  const { jobs, random, share } = options;
  let requests = 0;
  await nowAndThen(options, [5, 60], async () => {
    // Half of the changes go to other jobs than one-times, of which there are ever more, most of them over.
    const notOnce = random() < 0.5;
    const job = oneOf(
      random,
      jobs.all.filter(
        ({ kind, now }, index) =>
          now && index % share.of === share.index && !(notOnce && kind === "once"),
      ),
    );
    if (!job?.now) return;
    const period = periodOf(job.now.spec.schedule);
    // Half of the changes to crons come shortly before a fire time, when its run has been prepared.
    if (period !== undefined && random() < 0.5) {
      const ahead = between(random, 0, AHEAD_MS);
      await delay((((-Date.now() - ahead) % period) + period) % period);
    }
    await changeJob(job, random, `by-hand-${share.index}-${(requests += 1)}`);
  });
}

/** How far ahead the scheduler prepares runs, and some time for the news of a change to reach it. */
const AHEAD_MS = 60;

async function changeJob(job: TrackedJob, random: Random, key: string): Promise<void> {
  const turn = random();
  const edit = (): Promise<void> => job.edit("edit", (spec) => editedSpec(spec, random));
  const toggle = (): Promise<void> => {
    const paused = job.now?.spec.suspend === true;
    return job.edit(paused ? "resume" : "pause", (spec) => ({ ...spec, suspend: !paused }));
  };
  const move = (schedule: Schedule): Promise<void> =>
    job.edit("move", (spec) => ({ ...spec, schedule }));
  const now = Date.now();
  switch (job.kind) {
    case "quiet":
      if (turn < 0.3) await job.runByHand(key);
      break;
    case "edited":
      if (turn < 0.2) await job.runByHand(key);
      else await edit();
      break;
    case "paused":
      if (turn < 0.3) await edit();
      else await toggle();
      break;
    case "gone":
      if (turn < 0.3) await edit();
      else await job.lift();
      break;
    case "mixed":
      if (turn < 0.2) await edit();
      else if (turn < 0.35) await toggle();
      else if (turn < 0.6) await move(everyMs(pick(random, [100, 150, 200, 300])));
      else await move({ kind: "once", at: nearTheCrons(random, now) });
      break;
    case "once":
      if (turn < 0.25) await edit();
      else if (turn < 0.5) await toggle();
      else if (turn < 0.75)
        await move({ kind: "once", at: now + pick(random, [-10, 5, 30, 60, 100, 300, 600]) });
      else if (turn < 0.9) await move({ kind: "once", at: formerTime(job, random) ?? now });
      else if (turn < 0.97) await job.runByHand(key);
      else await job.lift();
      break;
    case "deleted":
      break;
  }
}

/** Another revision with the same schedule: prepared runs are taken back and decided anew. */
function editedSpec(spec: JobSpec, random: Random): JobSpec {
  const turn = random();
  const { target } = spec;
  if (turn < 0.4) return { ...spec, concurrencyPolicy: pick(random, POLICIES) };
  if (target.kind !== "webhook") return spec;
  const url =
    turn < 0.7
      ? urlOf(
          new URL(target.url).hostname.replace(/\.test$/, ""),
          pick(random, MOODS),
          mayBeGone(target.url),
        )
      : target.url;
  const payload = turn < 0.7 ? target.payload : JSON.stringify({ a: Math.floor(random() * 1e6) });
  return { ...spec, target: { ...target, url, payload } };
}

/** In most cases a fire time that the job has, or had, as a cron. */
function nearTheCrons(random: Random, now: number): number {
  const period = pick(random, [100, 150]);
  return random() < 0.7
    ? (Math.floor(now / period) + pick(random, [-2, -1, 0, 1, 2, 3])) * period
    : Math.round(now + between(random, -50, 200));
}

/** A time to which the job was set before. */
function formerTime({ steps }: TrackedJob, random: Random): number | undefined {
  const times = steps.flatMap(({ schedule }) => (schedule?.kind === "once" ? [schedule.at] : []));
  return oneOf(random, times);
}

/** Does `work` again and again until `until`, each time after a pause of `from` to `to` ms. */
async function nowAndThen(
  { random, until }: { random: Random; until: number },
  [from, to]: readonly [from: number, to: number],
  work: () => Promise<void>,
): Promise<void> {
  while (Date.now() < until) {
    await delay(between(random, from, to));
    await work();
  }
}

/** Adds one-times all the time, and adds and deletes jobs of the kind `deleted`. */
export async function comeAndGo(options: {
  jobs: Jobs;
  random: Random;
  until: number;
}): Promise<void> {
  const { jobs, random } = options;
  await nowAndThen(options, [50, 300], async () => {
    await jobs.add("once");
    if (random() < 0.3) await jobs.add("deleted");
    const job = oneOf(random, jobs.all);
    if (job?.kind === "deleted" && job.now) await job.delete();
  });
}

/** The processes. Their number stays the same: one that is killed or stopped is replaced. */
export interface Cluster {
  members: Member[];
  start(): Promise<Member>;
}

/** Counts a fault that was done. */
export type Note = (fault: string, times?: number) => void;

/** For how long a process may be cut off: up to more than a lease. */
const CUT_OFF_MS = [100, 3_500] as const;

/**
 * Moves leadership, also to two processes or to none, cuts processes off from PostgreSQL for a while, and kills and
 * stops processes. Resolves when those that were stopped have ended.
 */
export async function disturb(options: {
  cluster: Cluster;
  random: Random;
  until: number;
  note: Note;
}): Promise<void> {
  const { cluster, random, note } = options;
  const { members } = cluster;
  const ending: Promise<void>[] = [];
  await nowAndThen(options, [50, 600], async () => {
    const member = oneOf(random, members);
    if (member === undefined) return;
    const turn = random();
    if (turn < 0.65) note("leadership moved");
    if (turn < 0.5) member.lead(!member.leading);
    else if (turn < 0.65) for (const other of members) other.lead(other === member);
    else if (turn < 0.8) {
      note("process cut off from PostgreSQL");
      member.cutOff(between(random, ...CUT_OFF_MS));
    } else {
      const killed = turn < 0.9;
      note(killed ? "process killed" : "process ended");
      members.splice(members.indexOf(member), 1);
      if (killed) await member.kill();
      else ending.push(member.stop());
      members.push(await cluster.start());
    }
    if (!members.some(({ leading }) => leading) && random() < 0.8)
      oneOf(random, members)?.lead(true);
  });
  await Promise.all(ending);
}

interface OnServer {
  server: Pool;
  random: Random;
  until: number;
  note: Note;
}

/** Lets PostgreSQL end connections of the processes, a few at a time, whatever they are doing. */
export async function cutConnections(options: OnServer): Promise<void> {
  const { server, random, note } = options;
  await nowAndThen(options, [500, 2_500], async () => {
    const { rows } = await server.query<{ pid: number }>(
      `select pid from pg_stat_activity
        where datname = current_database() and application_name ~ '^process-' order by pid`,
    );
    const pids = shuffled(random, rows)
      .slice(0, 1 + Math.floor(random() * 6))
      .map(({ pid }) => pid);
    note("connection cut", pids.length);
    await server.query("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", [pids]);
  });
}

/** Locks the cursors or runs of a few jobs for less than a lease, as somebody with an open psql might. */
export async function holdLocks(options: OnServer): Promise<void> {
  const { server, random, note } = options;
  await nowAndThen(options, [200, 1_500], async () => {
    const table = pick(random, ["job_cursors", "runs"]);
    const few = 1 + Math.floor(random() * 3);
    await transaction(server, async (client) => {
      const { rowCount } = await client.query(
        `select from ${table} order by md5(job_uid::text || $1) limit $2 for update skip locked`,
        [String(random()), few],
      );
      note("row locked", rowCount ?? 0);
      await delay(between(random, 50, 900));
    });
  });
}

/** Ends everything that may still fire: crons are paused, `mixed` jobs become one-times, paused one-times resume. */
export async function bringToAnEnd(jobs: Jobs, random: Random): Promise<void> {
  for (const job of jobs.all) {
    const now = Date.now();
    if (!job.now) continue;
    if (job.kind === "mixed") {
      const at = pick(random, [now - 300, now + 200, Math.floor(now / 300) * 300]);
      await job.edit("move", (spec) => ({
        ...spec,
        suspend: false,
        schedule: { kind: "once", at },
      }));
    } else if (job.kind !== "once") {
      if (!job.now.spec.suspend) await job.edit("pause", (spec) => ({ ...spec, suspend: true }));
    } else if (job.now.spec.suspend)
      await job.edit("resume", (spec) => ({ ...spec, suspend: false }));
    else await job.lift();
  }
}

function oneOf<T>(random: Random, from: readonly T[]): T | undefined {
  return from[Math.floor(random() * from.length)];
}
