import type { Cursor, OnceState } from "./cursor.ts";
import { HOUR, MINUTE, SECOND, isoUtc, type Instant } from "./instant.ts";
import type { JobOutline } from "./job-outline.ts";
import { missedSpans, type Cut } from "./missed-spans.ts";
import type { LedgerChange } from "./ports/run-ledger.ts";
import type { DecidedReason, MissedSpan, NewRun, UnfinishedRun } from "./run.ts";
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
  /** False: nothing has to be written. Not for a later position alone: without it the next decision is the same. */
  changed: boolean;
  /** When to decide again if nothing else happens; null: only after a change. */
  wakeAt: Instant | null;
  standing: Standing;
}

/** A job seen for the first time this long after its creation has lost its cursor (docs/decisions/0004). */
const FIRST_SIGHT = HOUR;
/** For a job without a cursor: how late a fire time, and how old the resource of a `run-now`, may be. */
const NEW_JOB_GRACE = MINUTE;
/** A one-time job whose time lies further before its creation than this was restored from a backup. */
const PAST_AT_CREATION = MINUTE;

interface DecideInput {
  job: JobOutline;
  /** `revisionOf` the job. */
  revision: string;
  timing: Timing;
  cursor: Cursor | undefined;
  /** The job's unfinished scheduled runs; may be left out where `dependsOnUnfinished` says no. */
  unfinished: readonly UnfinishedRun[];
  now: Instant;
  /** ≥ now. Runs due up to here are created ahead of time; equal to `now` prepares nothing. */
  horizon: Instant;
  /** A list that is newer than the cursor still shows this job: see `contradicts`. */
  storeWins?: boolean;
}

/**
 * Whether the cursor knows of a deletion, or of a later generation, that the store does not show. For a moment that is
 * normal, since the store's news take their time. When it lasts, the store was restored from a backup, or a namespace
 * was out of sight for a while.
 */
export function contradicts(cursor: Cursor, job: JobOutline): boolean {
  return cursor.deleted || cursor.generation > job.generation;
}

/**
 * What is to be done about one job at `now`. Pure: gathers nothing, executes nothing. Level-based: the
 * same input gives the same answer, and a decision that got lost is taken again.
 *
 * Of the cron fire times since the cursor, the latest runs (within `startingDeadlineSeconds`) and the earlier
 * ones are recorded as missed, as in a batch/v1 CronJob; a one-time job runs late rather than never. Times before
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

/** The input with the cursor to go by. `takenUpAgain`: that is the one that `resumed` makes. */
type Settled = Omit<DecideInput, "storeWins"> & { takenUpAgain: boolean };

/** The part of the cursor that runs are compared with when they start. */
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
    haltedGeneration: haltStands(settled) ? job.generation : null,
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
 * Whether the job's unfinished runs could change `withoutThem`, the decision taken without them. Most decisions need no
 * query: overlap matters only when a run is due, and a firing is taken back only after a change.
 */
export function dependsOnUnfinished(
  job: JobOutline,
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
  missed: readonly MissedSpan<DecidedReason>[];
  wakeAt: Instant | null;
}

/** What is to be done when nothing is. */
const NOTHING = { create: [], replace: [], missed: [], wakeAt: null } as const;

function decideCron(input: Input): Scheduled {
  const { job, timing, now, horizon } = input;
  const missed = passedBeforeStop(input);
  if (!input.gate.startable || !timing.compiled.ok)
    return { ...NOTHING, once: "armed", position: restingPosition(input), missed };

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

  // Overlap is judged at the fire time itself, so that only runs of Allow can be prepared.
  const ahead = job.spec.concurrencyPolicy === "Allow" ? horizon - now : 0;
  let next = schedule.next(position);
  while (next !== null && next <= now + ahead) {
    create.push(scheduledRun(next));
    position = next;
    next = schedule.next(position);
  }
  return {
    once: "armed",
    position,
    create,
    replace,
    missed,
    wakeAt: next === null ? null : next - ahead,
  };
}

/**
 * Fire times that had not been decided yet when a pause or a halt came. The moment of a pause is not known: it counts
 * from now. Fire times of another schedule cannot be told any more.
 */
function passedBeforeStop({ job, timing, cursor, now }: Input): MissedSpan<DecidedReason>[] {
  const { schedule, suspend } = job.spec;
  if (!timing.compiled.ok || cursor === undefined) return [];
  const paused = suspend ? now : null;
  const until = cursor.startable ? paused : cursor.haltedAt;
  if (until === null) return [];
  if (cursor.scheduleHash !== scheduleHash({ schedule, suspend: false })) return [];
  const passed = { after: cursor.position, until };
  return missedSpans(timing.compiled.schedule, passed, { at: Infinity, reason: "paused" });
}

/** From where fire times count (exclusive), and the cut before which they may not run any more. */
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
  // The ledger drops runs that were prepared for the old revision; they are decided again for the new one.
  if (!sameRevision(cursor, input.gate)) return { base: Math.min(cursor.position, now), cut };
  return { base: cursor.position, cut };
}

function decideOnce(input: Input, at: Instant): Scheduled {
  const { job, timing, cursor, gate, now, horizon } = input;
  let once = onceStateOf(job, cursor, timing);
  let position = restingPosition(input);

  if (once === "fired" && cursor !== undefined && dropsRuns(cursor, gate)) {
    // The ledger is about to drop the only run (docs/decisions/0023, "edit" and "pause"). Unless an attempt was made,
    // take the firing back: the dropped run leaves no trace, because the cursor stands before `at`.
    if (unstartedAt(input, at)) {
      once = "armed";
      position = Math.min(now, at - 1);
    }
  }
  if (once !== "armed" || !gate.startable) return { ...NOTHING, once, position };

  // A creation time ahead of our clock counts as now: a time that is still to come has not passed.
  if (at < Math.min(job.createdAt, now) - PAST_AT_CREATION)
    return missedOnce(input, at, "past_at_creation");
  if (at > now) {
    const ahead = job.spec.concurrencyPolicy === "Allow" ? horizon - now : 0;
    if (at > now + ahead) return { ...NOTHING, once, position, wakeAt: at - ahead };
    return { ...NOTHING, once: "fired", position: at, create: [scheduledRun(at)] };
  }
  if ((cursor === undefined || input.takenUpAgain) && job.createdAt <= now - FIRST_SIGHT)
    return missedOnce(input, at, "downtime");
  const deadline = (job.spec.startingDeadlineSeconds ?? Infinity) * SECOND;
  if (now - at > deadline) return missedOnce(input, at, "deadline");
  const overlap = overlapping(input, at);
  if (job.spec.concurrencyPolicy === "Forbid" && overlap.length > 0)
    return missedOnce(input, at, "overlap");
  return {
    ...NOTHING,
    once: "fired",
    position: now,
    create: [scheduledRun(at)],
    replace: job.spec.concurrencyPolicy === "Replace" ? overlap : [],
  };
}

function missedOnce({ now }: Input, at: Instant, reason: DecidedReason): Scheduled {
  const missed = [{ first: at, last: at, count: 1, reason }];
  return { ...NOTHING, once: "missed", position: now, missed };
}

function unstartedAt({ unfinished }: Input, at: Instant): boolean {
  return unfinished.some((run) => run.scheduledAt === at && !run.started && run.attempts === 0);
}

/**
 * Where the cursor stands when nothing fires: back at now when prepared runs are dropped or the schedule has
 * changed.
 */
function restingPosition({ timing, cursor, gate, now }: Input): Instant {
  if (cursor === undefined) return now;
  if (cursor.scheduleHash !== timing.hash || dropsRuns(cursor, gate)) return now;
  return cursor.position;
}

/** Whether applying the decision makes the ledger drop unstarted runs; those that a halt left in the queue too. */
export function dropsRuns(cursor: Cursor, gate: Gate): boolean {
  if (!sameRevision(cursor, gate)) return true;
  return !gate.startable && (cursor.startable || cursor.haltedAt !== null);
}

function standingOf(settled: Settled): Standing {
  const { job, timing } = settled;
  if (job.account === null) return "no-account";
  if (!timing.compiled.ok) return "invalid";
  if (haltStands(settled)) return "halted";
  return job.spec.suspend ? "suspended" : "scheduled";
}

/**
 * Whether a 410 halts the job as it is. A halt also outlasts a time in which something else keeps the job from running:
 * its namespace has no account, or a leader of another release cannot read it.
 */
function haltStands({ job: { generation }, revision, cursor }: Settled): boolean {
  return cursor?.haltedGeneration === generation && sameRevision(cursor, { generation, revision });
}

/**
 * The run that a new `run-now` annotation asks for. It runs in spite of suspension, a 410 halt or overlap, as REST's
 * runs do. Of a job without a cursor, only the value of a new resource counts: that of one that was restored with etcd
 * is old (docs/decisions/0004). Where nothing may run at all, the request is spent and not kept for a day on which
 * nobody expects it.
 */
function manualRun(
  job: JobOutline,
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
 * Ids of the unfinished scheduled runs, of any generation: a queued one may start at any moment. Without the run of
 * `fireTime` itself, which is being created anew.
 */
function overlapping({ unfinished }: Input, fireTime: Instant): string[] {
  return unfinished.filter((run) => run.scheduledAt !== fireTime).map((run) => run.id);
}

/**
 * The cursor to go on from when the store is right and the cursor is not: as of a job that has just been resumed, so
 * that fire times that went by do not fire. Of a one-time job: docs/decisions/0023, "shown again".
 */
function resumed(cursor: Cursor): Cursor {
  const once = cursor.deleted && cursor.once === "fired" ? "armed" : cursor.once;
  return { ...cursor, deleted: false, startable: false, once };
}

function asItStands(cursor: Cursor, standing: Standing): Decision {
  const { jobUid: _uid, version: _version, ...to } = cursor;
  return { ...NOTHING, to, changed: false, standing };
}
