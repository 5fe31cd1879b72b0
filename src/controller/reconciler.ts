import { setImmediate as yieldToEvents } from "node:timers/promises";
import type { Cursor } from "../domain/cursor.ts";
import { decide, dependsOnUnfinished, dropsRuns, type Decision } from "../domain/decide.ts";
import { SECOND, type Instant } from "../domain/instant.ts";
import { jobStatus } from "../domain/job-status.ts";
import type { JobSpec } from "../domain/job.ts";
import type { Clock, Monotonic } from "../domain/ports/clock.ts";
import {
  DROPPING_JOBS_AT_ONCE,
  type LedgerChange,
  type RunLedger,
} from "../domain/ports/run-ledger.ts";
import type { StatusReporter } from "../domain/ports/status-reporter.ts";
import { sameRevision } from "../domain/revision.ts";
import type { UnfinishedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { JobEntry, JobView } from "./job-view.ts";
import type { StatusCounts } from "./status-counts.ts";
import type { WakeHeap } from "./wake-heap.ts";
import type { WorkQueue } from "./work-queue.ts";

export type ControllerMetrics = Pick<
  Metrics,
  | "jobs"
  | "leader"
  | "reconcileDuration"
  | "reconcileQueueDepth"
  | "reconciles"
  | "runCreationLateness"
  | "runsCreated"
  | "runsMissed"
>;

/** A job as of one moment: its entry may hold a newer one by the time that it is decided, or the decision applied. */
interface Seen extends Pick<JobEntry, "job" | "revision" | "timing" | "disproved"> {
  entry: JobEntry;
  /** Undefined when the view does not keep it. */
  spec: JobSpec | undefined;
  cursor: Cursor | undefined;
  now: Instant;
}

interface Plan extends Pick<Seen, "entry" | "job" | "spec" | "cursor"> {
  decision: Decision;
}

/** Milliseconds after which jobs that drop runs are left to a later batch: what falls due meanwhile must be in time. */
const PATIENCE = 2_000;

/**
 * Reconciles a batch of jobs: decides each, applies the decisions, and enters the results into the view, the heap and
 * the queue. Those that drop no runs, as where jobs are new or due, are applied in one transaction. Throws when
 * PostgreSQL fails; of the transaction that failed, and those after it, nothing was entered.
 */
export function createReconciler(deps: {
  ledger: Pick<RunLedger, "apply" | "cursors" | "unfinished">;
  clock: Clock;
  monotonic: Monotonic;
  view: JobView;
  heap: WakeHeap;
  queue: WorkQueue;
  counts: StatusCounts;
  metrics: ControllerMetrics;
  log: Logger;
  prepareAheadMs: number;
  reporter: StatusReporter | undefined;
  /** So many more jobs wait until they are listed, because the view does not keep what is to be stored of them. */
  onLackingSpecs(jobs: number): void;
}): {
  /** `current` turns false when leadership changes: then the results are discarded. */
  reconcile(uids: readonly string[], current: () => boolean): Promise<void>;
} {
  const { ledger, clock, monotonic, view, heap, queue, counts, metrics, log, reporter } = deps;

  function plan(seen: Seen, unfinished: readonly UnfinishedRun[]): Plan | undefined {
    const { entry, job, spec, revision, timing, disproved, cursor, now } = seen;
    try {
      const horizon = now + deps.prepareAheadMs;
      const storeWins = cursor !== undefined && cursor.version === disproved;
      const input = { job, revision, timing, cursor, unfinished, now, horizon, storeWins };
      return { entry, job, spec, cursor, decision: storable(decide(input), seen) };
    } catch (error) {
      // One job that cannot be decided must not disturb its neighbours.
      log.error({ err: error, job: job.id, uid: job.uid }, "a job cannot be decided; trying later");
      metrics.reconciles.inc({ outcome: "error" });
      heap.delete(job.uid);
      queue.retry(job.uid, now);
      return undefined;
    }
  }

  async function planAll(uids: readonly string[], now: Instant): Promise<Plan[]> {
    const plans: Plan[] = [];
    /** Jobs that cannot be decided without their unfinished runs. */
    const incomplete: Seen[] = [];
    for (const uid of uids) {
      const entry = view.entries.get(uid);
      if (entry === undefined) continue;
      const { job, revision, timing, disproved } = entry;
      const cursor = view.cursors.get(uid);
      const spec = view.specOf(uid);
      const seen = { entry, job, spec, revision, timing, disproved, cursor, now };
      const first = plan(seen, []);
      if (first === undefined) continue;
      if (dependsOnUnfinished(first.job, first.cursor, first.decision)) incomplete.push(seen);
      else plans.push(first);
    }
    if (incomplete.length === 0) return plans;
    const jobUids = incomplete.map(({ job }) => job.uid);
    const unfinished = await ledger.unfinished(jobUids);
    for (const seen of incomplete) {
      // Decided as seen at `now`: a pause that came since does not take back what was due before it.
      const complete = plan(seen, unfinished.get(seen.job.uid) ?? []);
      if (complete !== undefined) plans.push(complete);
    }
    return plans;
  }

  /** Without the plans that cannot be stored for want of a spec: those jobs come back when they are listed. */
  function withSpecs(plans: readonly Plan[]): readonly Plan[] {
    const { lacking = [], storing = [] } = Object.groupBy(plans, (each) =>
      lacksSpec(each) ? "lacking" : "storing",
    );
    for (const { job } of lacking) view.lacksSpec(job.uid);
    if (lacking.length > 0) deps.onLackingSpecs(lacking.length);
    return storing;
  }

  function accept({ entry, cursor, decision }: Plan, now: Instant): void {
    const { job, timing } = entry;
    entry.conflicts = 0;
    // The newer revision is on its way through the watch, or a list is: either brings the job here again.
    if (decision.standing === "stale") return;
    queue.succeeded(job.uid);
    if (decision.wakeAt === null) heap.delete(job.uid);
    else heap.set(job.uid, decision.wakeAt);
    const after = decision.changed
      ? cursorAfter(decision, { jobUid: job.uid, version: (cursor?.version ?? 0) + 1 })
      : cursor;
    if (after === undefined || decision.standing === "deleted") return;
    view.setCursor(after);

    const status = jobStatus(job, after, timing);
    counts.move(entry.status, status);
    entry.status = status;
    // Reports what others wrote, too, even if this reconcile had nothing to write.
    if (entry.reported !== after.version)
      reporter?.report(job, { cursor: after, status, timing, missed: decision.missed });
    entry.reported = after.version;
    metrics.reconciles.inc({
      outcome: status === "invalid" ? "invalid" : decision.changed ? "applied" : "unchanged",
    });
    for (const run of decision.create) {
      metrics.runsCreated.inc({ trigger: run.trigger });
      if (run.trigger === "schedule")
        metrics.runCreationLateness.observe(Math.max(0, now - run.scheduledAt) / SECOND);
    }
    for (const span of decision.missed) metrics.runsMissed.inc({ reason: span.reason }, span.count);
  }

  /** Rereads cursors that somebody else wrote: another leader, or a worker that completed or halted the job. */
  async function readAgain(lost: readonly Plan[], current: () => boolean): Promise<void> {
    const fresh = await ledger.cursors(lost.map(({ entry }) => entry.job.uid));
    if (!current()) return;
    for (const { entry } of lost) {
      const { uid } = entry.job;
      const cursor = fresh.get(uid);
      if (cursor === undefined) view.cursors.delete(uid);
      else view.setCursor(cursor);
      entry.conflicts += 1;
      metrics.reconciles.inc({ outcome: "conflict" });
      if (entry.conflicts > 3) queue.retry(uid, clock.now());
      else queue.add(uid);
    }
  }

  /** Returns the uids that are to be reconciled again. */
  async function apply(changes: readonly LedgerChange[]): Promise<readonly string[]> {
    if (changes.length > 0) return (await ledger.apply(changes)).conflicts;
    await yieldToEvents();
    return [];
  }

  async function carryOut(
    plans: readonly Plan[],
    now: Instant,
    current: () => boolean,
  ): Promise<void> {
    const changes = plans
      .filter(({ decision }) => decision.changed)
      .map(({ job, spec, cursor, decision }) => ({
        job,
        spec,
        from: cursor,
        to: decision.to,
        create: decision.create,
        replace: decision.replace,
        missed: decision.missed,
      }));
    const conflicts = new Set(await apply(changes));
    if (!current()) return;

    const lost: Plan[] = [];
    for (const each of plans) {
      const { uid } = each.entry.job;
      // Deleted while the transaction ran: it has left the view, and `RunLedger.cancelSome` follows.
      if (view.entries.get(uid) !== each.entry) continue;
      if (conflicts.has(uid)) lost.push(each);
      else accept(each, now);
    }
    if (lost.length > 0) await readAgain(lost, current);
  }

  return {
    async reconcile(uids, current) {
      const started = monotonic();
      const now = clock.now();
      const planned = await planAll(uids, now);
      if (!current()) return;
      const { rest = [], dropping = [] } = Object.groupBy(withSpecs(planned), (each) =>
        dropsAny(each) ? "dropping" : "rest",
      );
      await carryOut(rest, now, current);
      const left = accountsInTurn(dropping);
      while (left.length > 0 && current() && monotonic() - started < PATIENCE)
        await carryOut(left.splice(0, DROPPING_JOBS_AT_ONCE), now, current);
      if (!current()) return;
      for (const { job } of left) queue.add(job.uid);
      metrics.reconcileDuration.observe((monotonic() - started) / SECOND);
    },
  };
}

/** Whether the ledger would have to store a spec that the view does not keep. */
function lacksSpec({ spec, cursor, decision: { to } }: Plan): boolean {
  return spec === undefined && to.revision !== cursor?.revision;
}

/**
 * The decision, without a new name for a revision that PostgreSQL has under its number already (`sameRevision`) if that
 * would have to be stored anew, and the view does not keep it.
 */
function storable(decision: Decision, { spec, cursor }: Seen): Decision {
  if (spec !== undefined || cursor === undefined || !sameRevision(cursor, decision.to))
    return decision;
  return { ...decision, to: { ...decision.to, revision: cursor.revision } };
}

/** Whether applying the plan may drop runs that wait. */
function dropsAny({ cursor, decision: { changed, to } }: Plan): boolean {
  return changed && cursor !== undefined && (dropsRuns(cursor, to) || to.account === null);
}

/** One of each account, then the second of each, and so on: thousands of one account do not hold up the others. */
function accountsInTurn(plans: readonly Plan[]): Plan[] {
  const counts = new Map<string | null, number>();
  return plans
    .map((each) => {
      const turn = counts.get(each.job.account) ?? 0;
      counts.set(each.job.account, turn + 1);
      return { each, turn };
    })
    .sort((a, b) => a.turn - b.turn)
    .map(({ each }) => each);
}

/** Field by field: of an object that begins with a spread, V8 keeps the further fields in a second one. */
function cursorAfter(
  { to }: Pick<Decision, "to">,
  { jobUid, version }: Pick<Cursor, "jobUid" | "version">,
): Cursor {
  return {
    jobUid,
    account: to.account,
    version,
    position: to.position,
    scheduleHash: to.scheduleHash,
    generation: to.generation,
    revision: to.revision,
    startable: to.startable,
    once: to.once,
    haltedGeneration: to.haltedGeneration,
    haltedAt: to.haltedAt,
    lastRunNow: to.lastRunNow,
    deleted: to.deleted,
  };
}
