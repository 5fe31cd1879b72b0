import { MINUTE, SECOND } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import type { Monotonic, Random, Timer, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import {
  ChangeUnread,
  JOBS_PER_PAGE,
  PositionExpired,
  type JobPage,
  type JobStore,
} from "../domain/ports/job-store.ts";
import type { Logger } from "../telemetry/logger.ts";
import { backoffMs } from "../waiting/backoff.ts";
import { pause } from "../waiting/pause.ts";

/** What a reflector feeds. Never called concurrently. */
export interface ReflectorSink {
  /** A list begins. */
  listing(): void;
  /**
   * A job as the store has it, perhaps unchanged. `listed`: it comes from a list; otherwise from a watch, which may
   * replay what a list has already shown.
   */
  changed(job: Job, listed?: "listed"): void;
  deleted(uid: string): void;
  /**
   * A whole list was read: of the jobs that existed when it began, only these uids are left, apart from jobs in the
   * namespaces that refused to be listed.
   */
  listed(uids: ReadonlySet<string>, refused: readonly string[]): void;
  /**
   * Until the next `listed` the view must not be used: the store has been away for too long, or the view is known
   * to lack a change.
   */
  stale(): void;
}

/** The longest Retry-After of a store that is honoured. */
const LONGEST_WAIT_MS = MINUTE;
/** A store that is away for longer than this pauses scheduling. Shorter is normal: watches reconnect. */
const STALE_AFTER_MS = 10_000;
/** A watch is brief if it breaks sooner than this without having got on. */
const BRIEF_MS = 5_000;
/** After so many brief watches in a row the jobs are listed again, to get past the position at which watches break. */
const MOST_BRIEF = 3;

/**
 * Mirrors a JobStore: lists it whole, then follows its changes, for ever. After a lost connection the watch goes on
 * where it broke, after an expired position all is listed again, and a list every `resyncMs` repairs whatever
 * drifted.
 */
export function createReflector(deps: {
  jobs: JobStore;
  timers: Timers;
  random: Random;
  monotonic: Monotonic;
  log: Logger;
  resyncMs: number;
}): {
  run(sink: ReflectorSink, signal: AbortSignal): Promise<void>;
  /** Lists again now instead of at the next resync. */
  relist(): void;
} {
  const { jobs, timers, random, monotonic, log, resyncMs } = deps;
  /** A new list is wanted: one that is already under way does not count. */
  let listWanted = false;
  let interrupt: (() => void) | undefined;
  const relist = (): void => {
    listWanted = true;
    interrupt?.();
  };

  /** `onSilence`: a page takes longer than `STALE_AFTER_MS`. Returns the position from which to watch. */
  async function list(
    sink: ReflectorSink,
    onSilence: () => void,
    signal: AbortSignal,
  ): Promise<string> {
    sink.listing();
    const uids = new Set<string>();
    const refused: NonNullable<JobPage["refused"]>[] = [];
    let position: string;
    let next: string | undefined;
    do {
      const silence = timers.after(STALE_AFTER_MS, onSilence);
      const page = await jobs.list({ limit: JOBS_PER_PAGE, continue: next }).finally(() => {
        silence.cancel();
      });
      signal.throwIfAborted();
      for (const job of page.jobs) {
        uids.add(job.uid);
        sink.changed(job, "listed");
      }
      if (page.refused) refused.push(page.refused);
      position = page.position;
      next = page.continue;
    } while (next !== undefined);
    for (const { namespace, error } of refused)
      log.warn(
        { namespace, err: error },
        `the jobs of namespace ${namespace} cannot be listed: they wait until they can, others do not`,
      );
    sink.listed(
      uids,
      refused.map(({ namespace }) => namespace),
    );
    return position;
  }

  /** Follows until the signal aborts or the server ends the watch; `reached` keeps the last event's position. */
  async function watch(
    reached: { position: string },
    sink: ReflectorSink,
    answered: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    for await (const event of jobs.watch(reached.position, signal)) {
      answered();
      switch (event.type) {
        case "changed":
          sink.changed(event.job);
          break;
        case "deleted":
          sink.deleted(event.uid);
          break;
        case "bookmark":
          break;
      }
      reached.position = event.position;
    }
  }

  return {
    relist,
    async run(sink, signal) {
      /** Where the watch goes on; undefined: list first. */
      let reached: { position: string } | undefined;
      let failures = 0;
      /** Brief watches in a row, of a store that answers otherwise. */
      let brief = 0;
      /** Monotonic: when to list again, however often watches break until then. */
      let resyncAt = Infinity;
      /** There has been a list, and no `stale` since. */
      let trusted = false;
      /** Runs from the first failure until the store answers: it may ask for a minute, or not answer at all. */
      let silence: Timer | undefined;
      const distrust = (): void => {
        // Before anything is decided, everything that happened meanwhile must be known: list, do not watch.
        reached = undefined;
        if (trusted) sink.stale();
        trusted = false;
      };
      const answered = (): void => {
        if (failures > 0) log.info("the job store answers again");
        failures = 0;
        silence?.cancel();
        silence = undefined;
      };
      /** Returns how long to wait, in milliseconds. `gotOn`: the watch brought something, or held for `BRIEF_MS`. */
      const failed = (error: unknown, gotOn: boolean): number => {
        brief = failures > 0 || gotOn ? 0 : brief + 1;
        if (error instanceof PositionExpired && reached !== undefined) {
          log.debug({ err: error }, "the watch cannot go on; listing again");
          reached = undefined;
          return backoffMs(brief, random);
        }
        if (brief >= MOST_BRIEF) reached = undefined;
        if (failures === 0) log.warn({ err: error }, "the job store does not answer; retrying");
        failures += 1;
        // Also when it is lists that fail, after a resync, an expired position or a rebinding. A watch that is opened
        // later must not go on without a list.
        silence ??= timers.after(STALE_AFTER_MS, () => {
          distrust();
          interrupt?.();
        });
        if (error instanceof ChangeUnread) distrust();
        return askedForMs(error) + backoffMs(Math.max(failures, brief), random);
      };

      while (!signal.aborted) {
        const cycle = new AbortController();
        const both = AbortSignal.any([signal, cycle.signal]);
        let resync: Timer | undefined;
        /** Where and when the watch of this cycle began; monotonic. */
        let began: { position: string; time: number } | undefined;
        interrupt = () => {
          cycle.abort();
        };
        if (listWanted || monotonic() >= resyncAt) reached = undefined;
        listWanted = false;
        try {
          if (reached === undefined) {
            reached = { position: await list(sink, distrust, signal) };
            trusted = true;
            // Between 0.75 and 1.25 of the period: replicas and jobs must not resync in step.
            resyncAt = monotonic() + resyncMs * (0.75 + random() / 2);
            answered();
          }
          resync = timers.after(resyncAt - monotonic(), relist);
          began = { position: reached.position, time: monotonic() };
          await watch(reached, sink, answered, both);
          brief = 0;
          // A watch that ends without an error was closed by the server. That is normal; only a busy loop must be
          // avoided.
          if (!both.aborted) await pause(backoffMs(0, random), timers, signal);
        } catch (error) {
          if (signal.aborted) break;
          if (cycle.signal.aborted) continue;
          const gotOn =
            began !== undefined &&
            (reached?.position !== began.position || monotonic() - began.time >= BRIEF_MS);
          await pause(failed(error, gotOn), timers, signal);
        } finally {
          resync?.cancel();
        }
      }
      silence?.cancel();
    },
  };
}

/** The store's Retry-After, 0 without one. The caller adds jitter: all replicas were told the same. */
function askedForMs(error: unknown): number {
  if (!(error instanceof DependencyUnavailable)) return 0;
  return Math.min(LONGEST_WAIT_MS, (error.retryAfterSeconds ?? 0) * SECOND);
}
