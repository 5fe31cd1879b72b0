import { Bell } from "../waiting/bell.ts";
import type { Cursor } from "../domain/cursor.ts";
import { HOUR, MINUTE } from "../domain/instant.ts";
import type { Clock, Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { LockHeld } from "../domain/ports/dependency-unavailable.ts";
import type { JobStore } from "../domain/ports/job-store.ts";
import type { Leadership } from "../domain/ports/leadership.ts";
import type { LedgerNews, RunLedger } from "../domain/ports/run-ledger.ts";
import type { StatusReporter } from "../domain/ports/status-reporter.ts";
import type { Logger } from "../telemetry/logger.ts";
import { pause } from "../waiting/pause.ts";
import { FailurePolicy } from "./failure-policy.ts";
import { JobView } from "./job-view.ts";
import { LockedJobs } from "./locked-jobs.ts";
import { createReconciler, type ControllerMetrics } from "./reconciler.ts";
import { createReflector, type ReflectorSink } from "./reflector.ts";
import { StatusCounts } from "./status-counts.ts";
import { SuspectCursors } from "./suspect-cursors.ts";
import { Tombstones } from "./tombstones.ts";
import { TouchedCursors } from "./touched-cursors.ts";
import { WakeHeap } from "./wake-heap.ts";
import { WorkQueue } from "./work-queue.ts";

export interface ControllerDeps {
  jobs: JobStore;
  ledger: RunLedger;
  clock: Clock;
  /** Only listened to here: the composition runs the election, and ends it after the controller. */
  leadership: Leadership;
  timers: Timers;
  monotonic: Monotonic;
  random: Random;
  metrics: ControllerMetrics;
  log: Logger;
  /** Tells of what others write to the ledger; without it their changes are seen at the next resync. */
  news?: LedgerNews;
  reporter?: StatusReporter;
  /** How long before their time runs are created (with Forbid and Replace: at their time). Default 15 s. */
  prepareAheadMs?: number;
  /** The most jobs in one transaction. Default 2,000. */
  batchSize?: number;
  /** The most characters of specs in memory. Default: see JobView. */
  mostKept?: number;
  /** How often everything is listed and reconciled anew, ± a quarter. Default 15 min. */
  resyncMs?: number;
}

export interface Controller {
  /** Schedules whenever leading, until the signal aborts. Never rejects for an outage. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * For how many milliseconds the known jobs have been too old to schedule by; 0 while they can be trusted, Infinity
   * before the first list. Replicas that do not lead keep their view too.
   */
  readonly staleMs: number;
  /** Namespaces that refused to be listed: their jobs wait. */
  readonly refused: readonly string[];
}

/** One piece of work; `loop` needs to know what it was about when it fails. */
interface Batch {
  /** Jobs taken from the queue to be reconciled. */
  taken: string[];
  /** Jobs that its transaction writes. */
  written: readonly string[];
}

/** How often to look whether the clock is known: it has no event for that. */
const CLOCK_POLL_MS = 250;
/**
 * The longest sleep, because the clock may step: timers stand still while a machine sleeps, and another server may
 * be ahead.
 */
const CLOCK_STEP_MS = 5_000;
const CURSOR_PAGE = 5_000;
/** Deleted jobs that are cancelled in one transaction. */
const CANCELLED_AT_ONCE = 200;

/**
 * The level-based loop: a reflector keeps the jobs in memory, a heap and one timer say which are due, and
 * batches of them are decided and applied. Every event may be lost, repeated or late, and the process
 * may die anywhere: the next reconcile comes to the same state.
 */
export function createController(deps: ControllerDeps): Controller {
  const { jobs, ledger, clock, leadership, timers, monotonic, random, metrics, log, reporter } =
    deps;
  const batchSize = deps.batchSize ?? 2_000;
  const view = new JobView({ mostKept: deps.mostKept });
  const heap = new WakeHeap();
  const queue = new WorkQueue({ random });
  const counts = new StatusCounts({ gauge: metrics.jobs });
  const bell = new Bell({ timers });
  const reconciler = createReconciler({
    ledger,
    clock,
    monotonic,
    view,
    heap,
    queue,
    counts,
    metrics,
    log,
    reporter,
    onLackingSpecs(count) {
      log.debug({ jobs: count }, "more was changed at once than is kept in memory; listing again");
      reflector.relist();
    },
    prepareAheadMs: deps.prepareAheadMs ?? 15_000,
  });
  const resyncMs = deps.resyncMs ?? 15 * MINUTE;
  const reflector = createReflector({ jobs, timers, random, monotonic, log, resyncMs });

  /** Monotonic: since when the view cannot be trusted; undefined while it can. */
  let staleSince: number | undefined = -Infinity;
  let refusedNamespaces: readonly string[] = [];
  let leading = false;
  /** Rises with every change of leadership: results of work that began in an older term are discarded. */
  let term = 0;
  /** Cursors must be read (again) before anything is decided. */
  let cursorsDue = true;
  const onDue = (): void => {
    bell.ring();
  };
  const touched = new TouchedCursors({ ledger, view, queue, timers, onDue });
  const locked = new LockedJobs({ ledger, queue, timers, monotonic, log, onDue });
  const policy = new FailurePolicy({ mostJobs: batchSize, answers, random, log });
  const tombstones = new Tombstones();
  /**
   * Cancelling takes turns with reconciling: after a namespace is deleted, there is something to cancel for
   * minutes.
   */
  let cancelledLast = false;
  const suspects = new SuspectCursors({
    view,
    timers,
    log,
    relist: () => {
      reflector.relist();
    },
  });

  /** The job is not to be scheduled here any more. */
  function drop(uid: string): void {
    const entry = view.remove(uid);
    heap.delete(uid);
    queue.forget(uid);
    counts.move(entry?.status, undefined);
    reporter?.forget(uid);
  }

  const sink: ReflectorSink = {
    listing() {
      suspects.listing();
    },
    changed(job, listed) {
      // Listed although it was deleted before the list began: the store has been restored.
      if (listed) tombstones.delete(job.uid);
      suspects.seen(job.uid);
      if (view.put(job, listed) === "irrelevant" || !leading) return;
      queue.add(job.uid);
      bell.ring();
    },
    deleted(uid) {
      drop(uid);
      tombstones.add(uid, leading);
      bell.ring();
    },
    listed(uids, refused) {
      // A missing job may be in a namespace that refused to be listed: it is not scheduled unseen, nor cancelled as
      // if it were deleted. A job that really was deleted waits, too, for a list without such a gap.
      const whole = refused.length === 0;
      for (const uid of view.entries.keys())
        if (!uids.has(uid)) {
          if (whole) sink.deleted(uid);
          else drop(uid);
        }
      for (const uid of suspects.listed(whole)) if (!uids.has(uid)) tombstones.add(uid, leading);
      refusedNamespaces = refused;
      if (staleSince !== undefined && staleSince !== -Infinity)
        log.info("the job store is listed again; scheduling goes on");
      staleSince = undefined;
      cursorsDue = true;
      bell.ring();
    },
    stale() {
      staleSince = monotonic();
      log.warn("the job store has been away for long; scheduling pauses until it is listed again");
    },
  };

  function onLeadership(now: boolean): void {
    if (now === leading) return;
    leading = now;
    term += 1;
    metrics.leader.set(now ? 1 : 0);
    log.info(now ? "leading: scheduling begins" : "not leading: scheduling ends");
    if (!now) {
      heap.clear();
      queue.clear();
      counts.clear();
      view.endTerm();
      touched.clear();
      locked.clear();
      suspects.clear();
      reporter?.clear();
    }
    cursorsDue = true;
    bell.ring();
  }

  async function loadCursors(current: () => boolean): Promise<void> {
    cursorsDue = false;
    try {
      const started = monotonic();
      const fresh: Cursor[] = [];
      const uids = [...view.entries.keys()];
      for (let index = 0; index < uids.length; index += CURSOR_PAGE) {
        const page = await ledger.cursors(uids.slice(index, index + CURSOR_PAGE));
        fresh.push(...page.values());
      }
      const found = await ledger.orphans(new Set(view.entries.keys()));
      if (!current()) return;
      view.setCursors(fresh);
      for (const uid of view.entries.keys()) queue.add(uid);
      const orphans = found.filter((uid) => !tombstones.has(uid) && !view.entries.has(uid));
      suspects.found(fresh, orphans);
      log.debug({ jobs: uids.length, ms: Math.round(monotonic() - started) }, "cursors read");
    } catch (error) {
      cursorsDue = true;
      throw error;
    }
  }

  /** Undefined: any cursor may have been written. */
  function onCursors(uids: readonly string[] | undefined): void {
    if (!leading) return;
    if (uids !== undefined) {
      touched.add(uids);
      return;
    }
    cursorsDue = true;
    bell.ring();
  }

  async function cancelSome(batch: Batch, current: () => boolean): Promise<boolean> {
    const gone = await locked.others(tombstones.first(CANCELLED_AT_ONCE, queue.aside), current);
    if (gone.length === 0) return false;
    cancelledLast = true;
    batch.written = gone;
    // With a million runs behind an open circuit it takes many turns.
    if (await ledger.cancelSome(gone)) for (const uid of gone) tombstones.delete(uid);
    return true;
  }

  /** Whether what is known of the jobs, of the time and of who leads is good enough to decide by. */
  function mayDecide(): boolean {
    // `holds` may turn false before the listener hears of it.
    return staleSince === undefined && leading && leadership.holds() && clock.known;
  }

  /** One piece of work; false when there is none at the moment. Throws when PostgreSQL fails. */
  async function step(batch: Batch, current: () => boolean): Promise<boolean> {
    if (cursorsDue) {
      await loadCursors(current);
      return true;
    }
    if (locked.due) {
      await locked.look(current);
      return true;
    }
    if (!cancelledLast && (await cancelSome(batch, current))) return true;
    if (touched.due) {
      await touched.load(batchSize, current);
      return true;
    }
    cancelledLast = false;
    const now = clock.now();
    queue.promote(now);
    while (queue.due < batchSize) {
      const due = heap.popDue(now);
      if (due === undefined) break;
      queue.addDue(due);
    }
    metrics.reconcileQueueDepth.set(queue.depth);
    batch.taken = queue.take(policy.limit);
    if (batch.taken.length === 0) return cancelSome(batch, current);
    batch.written = await locked.others(batch.taken, current);
    if (mayDecide() && !cursorsDue) await reconciler.reconcile(batch.written, current);
    // What was true before that question is not true any more.
    else if (current()) for (const uid of batch.taken) queue.add(uid);
    return true;
  }

  /** Milliseconds until something is due by itself; the bell rings for everything else. */
  function idleMs(): number {
    const next = Math.min(heap.next() ?? Infinity, queue.nextRetry() ?? Infinity);
    return Math.min(CLOCK_STEP_MS, Math.max(1, Math.ceil(next - clock.now())));
  }

  async function loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const batch: Batch = { taken: [], written: [] };
      const inTerm = term;
      const current = (): boolean => leading && term === inTerm;
      try {
        if (!mayDecide()) {
          // The bell tells of a view that is no longer stale, and of a term that begins, but not of the others.
          await bell.wait(staleSince !== undefined || !leading ? HOUR : CLOCK_POLL_MS, signal);
          continue;
        }
        const worked = await step(batch, current);
        policy.succeeded(batch.taken);
        if (!worked) await bell.wait(idleMs(), signal);
      } catch (error) {
        if (term === inTerm) for (const uid of batch.taken) queue.add(uid);
        if (error instanceof LockHeld && (await locked.putAside(batch.written, current))) continue;
        const after = await policy.failed(batch.taken, error);
        if (after.next === "put_off") putOff(after.uid, error);
        if (after.next === "pause") await pause(after.ms, timers, signal);
      }
    }
  }

  function putOff(uid: string, error: unknown): void {
    if (!view.entries.has(uid)) return;
    queue.retry(uid, clock.now());
    metrics.reconciles.inc({ outcome: "error" });
    log.error({ err: error, uid }, "a job cannot be reconciled; trying later");
  }

  /** Whether PostgreSQL works, as far as a read tells. */
  async function answers(uids: readonly string[]): Promise<boolean> {
    try {
      await ledger.cursors(uids.slice(0, 1));
      return clock.known;
    } catch {
      return false;
    }
  }

  return {
    get staleMs() {
      return staleSince === undefined ? 0 : monotonic() - staleSince;
    },
    get refused() {
      return refusedNamespaces;
    },
    async run(signal) {
      const unsubscribe = [
        leadership.onChange(onLeadership),
        deps.news?.onCursors(onCursors),
        reporter &&
          deps.news?.onClosed((uids) => {
            if (leading && uids !== undefined) reporter.closed(uids);
          }),
      ];
      try {
        await Promise.all([reflector.run(sink, signal), loop(signal)]);
      } finally {
        for (const end of unsubscribe) end?.();
        // The process may go on delivering for long, and nobody here will hear that the election has ended.
        metrics.leader.set(0);
        touched.clear();
        locked.clear();
        reporter?.clear();
      }
    },
  };
}
