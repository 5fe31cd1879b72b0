import type { Cursor, OnceState } from "./cursor.ts";
import { HOUR, MINUTE, SECOND, isoUtc, type Instant } from "./instant.ts";
import type { Job } from "./job.ts";
import { missedSpans, type Cut } from "./missed-spans.ts";
import type { LedgerChange } from "./ports/run-ledger.ts";
import type { MissedReason, MissedSpan, NewRun, UnfinishedRun } from "./run.ts";
import { sameRevision } from "./revision.ts";
import { scheduleHash } from "./schedule.ts";
import { onceStateOf, type Timing } from "./timing.ts";

/** Whether scheduled runs may be created, or what stands against it. */
export type Standing =
  | "scheduled"
  | "suspended"
  | "halted"
  | "no-account"
  | "invalid"
  /** Deleted in PostgreSQL; the store just has not said so yet. */
  | "deleted"
  /** The job in hand is older than what was decided already: a newer one is on its way. */
  | "stale";

export interface Decision extends Pick<LedgerChange, "to" | "create" | "replace" | "missed"> {
  /** False: the ledger has nothing to learn. A position alone is no news: it only saves time. */
  changed: boolean;
  /** When to decide again if nothing else happens; null: only after a change. */
  wakeAt: Instant | null;
  standing: Standing;
}

/** A job seen for the first time this long after its creation has lost its cursor (docs/decisions/0004). */
const FIRST_SIGHT = HOUR;
/** How late a fire time before the first sight, and how old a `run-now` of a new job, may be. */
const NEW_JOB_GRACE = MINUTE;
/** A one-time whose time lies further before its creation comes from a backup. */
const PAST_AT_CREATION = MINUTE;

interface DecideInput {
  job: Job;
  /** `revisionOf` the job. */
  revision: string;
  timing: Timing;
  cursor: Cursor | undefined;
  /** The job's unfinished runs; may be left out where `dependsOnUnfinished` says no. */
  unfinished: readonly UnfinishedRun[];
  now: Instant;
  /** ≥ now. Runs due up to here are created ahead of time; equal to `now` prepares nothing. */
  horizon: Instant;
  /** A list that is newer than the cursor still shows this job: see `contradicts`. */
  storeWins?: boolean;
}

/**
 * Whether the cursor knows of a deletion, or of a later generation, of which the store says nothing. For a
 * moment that is as it should be, since the store's news take their time. For good it is a restored backup,
 * or a namespace that was out of sight for a while.
 */
export function contradicts(cursor: Cursor, job: Job): boolean {
  return cursor.deleted || cursor.generation > job.generation;
}

/**
 * What is to be done about one job at `now`. Pure: gathers nothing, executes nothing. Level-based: the
 * same input gives the same answer, and a decision that got lost is taken again.
 *
 * Of cron fire times since the cursor the latest runs (within `startingDeadlineSeconds`), the earlier
 * ones are recorded, as batch/v1 CronJob does; a one-time runs late rather than never. Times before
 * creation, change or resume never fire.
 */
export function decide(input: DecideInput): Decision {
  const { job, cursor } = input;
  if (cursor === undefined || !contradicts(cursor, job))
    return decideBy({ ...input, takenUpAgain: false });
  // A new leader's cache may lag behind what the old one decided on: never go back a generation.
  return input.storeWins
    ? decideBy({ ...input, cursor: resumed(cursor), takenUpAgain: true })
    : asItStands(cursor, cursor.deleted ? "deleted" : "stale");
}

/** Once it is clear which cursor to go by. `takenUpAgain`: it is the one that `resumed` makes. */
type Settled = Omit<DecideInput, "storeWins"> & { takenUpAgain: boolean };

/** What runs are compared with when they start, whatever becomes of the schedule. */
type Gate = Pick<Cursor, "generation" | "revision" | "startable">;

type Input = Settled & { gate: Gate };

function decideBy(settled: Settled): Decision {
  const { job, revision, timing, cursor, now } = settled;
  const standing = standingOf(settled);
  const startable = standing === "scheduled";
  const gate: Gate = { generation: job.generation, revision, startable };
  const manual = manualRun(job, cursor, standing, now);
  const input: Input = { ...settled, gate };
  const scheduled =
    job.spec.schedule.kind === "once" ? decideOnce(input, job.spec.schedule.at) : decideCron(input);

  const to: Decision["to"] = {
    account: job.account,
    position: scheduled.position,
    scheduleHash: timing.hash,
    ...gate,
    once: scheduled.once,
    haltedGeneration: standing === "halted" ? job.generation : null,
    haltedAt: null,
    lastRunNow: job.runNow ?? cursor?.lastRunNow ?? null,
    deleted: false,
  };
  const create = manual === undefined ? scheduled.create : [...scheduled.create, manual];
  return {
    to,
    create,
    replace: scheduled.replace,
    missed: scheduled.missed,
    changed:
      cursor === undefined ||
      settled.takenUpAgain ||
      create.length > 0 ||
      scheduled.missed.length > 0 ||
      to.account !== cursor.account ||
      to.position < cursor.position ||
      to.scheduleHash !== cursor.scheduleHash ||
      !sameRevision(cursor, to) ||
      to.startable !== cursor.startable ||
      to.once !== cursor.once ||
      to.haltedGeneration !== cursor.haltedGeneration ||
      to.haltedAt !== cursor.haltedAt ||
      to.lastRunNow !== cursor.lastRunNow,
    wakeAt: scheduled.wakeAt,
    standing,
  };
}

/**
 * Whether the unfinished runs of the job bear on this decision, given the one taken without them. Most
 * never need the query: overlap matters only when a run is due, taking back only after a change.
 */
export function dependsOnUnfinished(
  job: Job,
  cursor: Cursor | undefined,
  withoutThem: Decision,
): boolean {
  if (job.spec.concurrencyPolicy !== "Allow")
    if (withoutThem.create.some((run) => run.trigger === "schedule")) return true;
  return cursor?.once === "fired" && dropsRuns(cursor, withoutThem.to);
}

interface Scheduled {
  position: Instant;
  once: OnceState;
  create: readonly NewRun[];
  replace: readonly string[];
  missed: readonly MissedSpan[];
  wakeAt: Instant | null;
}

function decideCron(input: Input): Scheduled {
  const { job, timing, now, horizon } = input;
  const idle = { once: "armed" as const, create: [], replace: [], missed: [], wakeAt: null };
  const missed = passedBeforeStop(input);
  if (!input.gate.startable || !timing.compiled.ok)
    return { ...idle, position: restingPosition(input), missed };

  const { schedule } = timing.compiled;
  const { base, cut } = cronStart(input);
  const create: NewRun[] = [];
  let replace: readonly string[] = [];
  let position = Math.max(base, now);

  const latest = base < now ? schedule.latest(now, base) : null;
  if (latest !== null) {
    const inTime = latest >= cut.at;
    missed.push(
      ...missedSpans(schedule, { after: base, until: inTime ? latest - 1 : latest }, cut),
    );
    const overlap = overlapping(input, latest);
    if (inTime && job.spec.concurrencyPolicy === "Forbid" && overlap.length > 0) {
      missed.push({ first: latest, last: latest, count: 1, reason: "overlap" });
    } else if (inTime) {
      create.push(scheduledRun(latest));
      if (job.spec.concurrencyPolicy === "Replace") replace = overlap;
    }
  }

  // Overlap is judged at the fire time itself, so only Allow may be prepared.
  const ahead = job.spec.concurrencyPolicy === "Allow" ? horizon - now : 0;
  let next = schedule.next(position);
  while (next !== null && next <= now + ahead) {
    create.push(scheduledRun(next));
    position = next;
    next = schedule.next(position);
  }
  return {
    ...idle,
    position,
    create,
    replace,
    missed,
    wakeAt: next === null ? null : next - ahead,
  };
}

/**
 * What was due, and had not been decided when a pause or a halt came. When a pause came nobody knows: it counts from now.
 * Of another schedule nobody knows any more.
 */
function passedBeforeStop({ job, timing, cursor, now }: Input): MissedSpan[] {
  const { schedule, suspend } = job.spec;
  if (!timing.compiled.ok || cursor === undefined) return [];
  const paused = suspend ? now : null;
  const until = cursor.startable ? paused : cursor.haltedAt;
  if (until === null || cursor.position >= until) return [];
  if (cursor.scheduleHash !== scheduleHash({ schedule, suspend: false })) return [];
  const passed = { after: cursor.position, until };
  return missedSpans(timing.compiled.schedule, passed, { at: Infinity, reason: "paused" });
}

/** From where fire times count (exclusive), and before which moment, why, they may not run any more. */
function cronStart(input: Input): { base: Instant; cut: Cut } {
  const { job, timing, cursor, now } = input;
  const deadline = (job.spec.startingDeadlineSeconds ?? Infinity) * SECOND;
  const cut: Cut = { at: now - deadline, reason: "deadline" };
  if (cursor === undefined) {
    const lost = job.createdAt <= now - FIRST_SIGHT;
    const grace = now - NEW_JOB_GRACE;
    return {
      base: lost ? now : Math.min(job.createdAt, now),
      cut: cut.at > grace ? cut : { at: grace, reason: "downtime" },
    };
  }
  if (cursor.scheduleHash !== timing.hash || !cursor.startable) return { base: now, cut };
  // The ledger drops what was prepared for the old revision; it is decided again for the new one.
  if (!sameRevision(cursor, input.gate)) return { base: Math.min(cursor.position, now), cut };
  return { base: cursor.position, cut };
}

function decideOnce(input: Input, at: Instant): Scheduled {
  const { job, timing, cursor, gate, now, horizon } = input;
  const idle = { create: [], replace: [], missed: [], wakeAt: null };
  let once = onceStateOf(job, cursor, timing);
  let position = restingPosition(input);

  if (once === "fired" && cursor !== undefined && dropsRuns(cursor, gate)) {
    // The ledger is about to drop the only run this job has. Unless an attempt was made, take the
    // firing back: before `at` the drop leaves no trace, and the run is created anew, now or on resume.
    if (at > now || unstartedAt(input, at)) {
      once = "armed";
      position = Math.min(now, at - 1);
    }
  }
  if (once !== "armed" || !gate.startable) return { ...idle, once, position };

  // By a clock that is ahead of ours it was created now: what is still to come has not passed.
  if (at < Math.min(job.createdAt, now) - PAST_AT_CREATION)
    return missedOnce(input, at, "past_at_creation");
  if (at > now) {
    const ahead = job.spec.concurrencyPolicy === "Allow" ? horizon - now : 0;
    if (at > now + ahead) return { ...idle, once, position, wakeAt: at - ahead };
    return { ...idle, once: "fired", position: at, create: [scheduledRun(at)] };
  }
  if ((cursor === undefined || input.takenUpAgain) && job.createdAt <= now - FIRST_SIGHT)
    return missedOnce(input, at, "downtime");
  const deadline = (job.spec.startingDeadlineSeconds ?? Infinity) * SECOND;
  if (now - at > deadline) return missedOnce(input, at, "deadline");
  const overlap = overlapping(input, at);
  if (job.spec.concurrencyPolicy === "Forbid" && overlap.length > 0)
    return missedOnce(input, at, "overlap");
  return {
    ...idle,
    once: "fired",
    position: now,
    create: [scheduledRun(at)],
    replace: job.spec.concurrencyPolicy === "Replace" ? overlap : [],
  };
}

function missedOnce({ now }: Input, at: Instant, reason: MissedReason): Scheduled {
  return {
    once: "missed",
    position: now,
    create: [],
    replace: [],
    missed: [{ first: at, last: at, count: 1, reason }],
    wakeAt: null,
  };
}

function unstartedAt({ unfinished }: Input, at: Instant): boolean {
  return unfinished.some(
    (run) =>
      run.trigger === "schedule" &&
      run.scheduledAt === at &&
      run.state !== "started" &&
      run.attempts === 0,
  );
}

/** Where the cursor stands when nothing fires: put back to now whenever prepared runs are dropped. */
function restingPosition({ timing, cursor, gate, now }: Input): Instant {
  if (cursor === undefined) return now;
  if (cursor.scheduleHash !== timing.hash || dropsRuns(cursor, gate)) return now;
  return cursor.position;
}

/** Whether applying the decision makes the ledger drop unstarted runs: a halt has left them in the queue. */
function dropsRuns(cursor: Cursor, gate: Gate): boolean {
  if (!sameRevision(cursor, gate)) return true;
  return !gate.startable && (cursor.startable || cursor.haltedAt !== null);
}

function standingOf({ job, revision, timing, cursor }: Settled): Standing {
  const { account, generation } = job;
  if (account === null) return "no-account";
  if (!timing.compiled.ok) return "invalid";
  if (cursor?.haltedGeneration === generation && sameRevision(cursor, { generation, revision }))
    return "halted";
  return job.spec.suspend ? "suspended" : "scheduled";
}

/**
 * The run that a new `run-now` annotation asks for; suspension, the halt of a 410 and overlap do not matter
 * to it, as they do not to REST's. A value that comes with a restored resource is old news. Where nothing may
 * run at all the request is spent, not kept for a day on which nobody expects it.
 */
function manualRun(
  job: Job,
  cursor: Cursor | undefined,
  standing: Standing,
  now: Instant,
): NewRun | undefined {
  if (job.runNow === null || job.runNow === (cursor?.lastRunNow ?? null)) return undefined;
  if (standing === "no-account" || standing === "invalid") return undefined;
  if (cursor === undefined && job.createdAt < now - NEW_JOB_GRACE) return undefined;
  return { trigger: "manual", key: `annotation:${job.runNow}`, scheduledAt: now };
}

function scheduledRun(at: Instant): NewRun {
  return { trigger: "schedule", key: isoUtc(at), scheduledAt: at };
}

/**
 * Every unfinished scheduled run counts, of whatever generation: a queued one may start any moment.
 * Except the run of `fireTime` itself, which is being created anew.
 */
function overlapping({ unfinished }: Input, fireTime: Instant): string[] {
  return unfinished
    .filter((run) => run.trigger === "schedule" && run.scheduledAt !== fireTime)
    .map((run) => run.id);
}

/**
 * The cursor to go on from when the store is right and the cursor is not: that of a job that has just been
 * resumed. Fire times that went by do not fire. A one-time whose only run was cancelled is armed again.
 */
function resumed(cursor: Cursor): Cursor {
  const once = cursor.deleted && cursor.once === "fired" ? "armed" : cursor.once;
  return { ...cursor, deleted: false, startable: false, once };
}

function asItStands(cursor: Cursor, standing: Standing): Decision {
  const { jobUid: _uid, version: _version, ...to } = cursor;
  return { to, create: [], replace: [], missed: [], changed: false, wakeAt: null, standing };
}
