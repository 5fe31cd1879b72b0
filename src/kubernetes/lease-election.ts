import { isDeepStrictEqual } from "node:util";
import type { Instant } from "../domain/instant.ts";
import type { Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Leadership } from "../domain/ports/leadership.ts";
import type { Logger } from "../telemetry/logger.ts";
import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { createLeaseLock, microTime, type ElectionRecord } from "./lease.ts";
import { pause } from "../waiting/pause.ts";
import { withTimeout } from "../waiting/within.ts";

export interface LeaseElectionDependencies {
  /** A client of its own, with one connection: many other calls must not delay a renewal. */
  client: KubernetesClient;
  namespace: string;
  name: string;
  /** Unique to the process, not only to the pod: a restarted container must not pass for its predecessor. */
  identity: string;
  monotonic: Monotonic;
  timers: Timers;
  random: Random;
  /** Wall clock for the Lease's times, which only people read: a wrong one changes nothing. */
  wallClock: () => Instant;
  log: Pick<Logger, "debug" | "info" | "warn">;
  /** How long others wait while the record does not change, before they take over. Default 15 s. */
  leaseDurationMs?: number;
  /** How long the leader tries to renew before it gives up. Default 10 s. */
  renewDeadlineMs?: number;
  /** Between two tries. Default 2 s. */
  retryPeriodMs?: number;
}

/** client-go's: candidates wait between 1 and 2.2 retry periods, so that they do not try in step. */
const JITTER_FACTOR = 1.2;
/** The largest int32. Somebody may have written that by hand; one more would make every write invalid. */
const MOST_TRANSITIONS = 2 ** 31 - 1;
/** Between two looks at whether this process is fit, which cost no call. */
const FIT_POLL_MS = 250;

/**
 * client-go's tools/leaderelection on a coordination.k8s.io/v1 Lease, so that it behaves as operators
 * know it. Durations are measured on the local monotonic clock from the moment the record was last
 * seen to change; clocks of different machines are never compared. Like the original it does not fence:
 * two processes may believe in their leadership for a moment, and the cursor in PostgreSQL makes that
 * harmless.
 *
 * It differs in four things: after a loss it stands again instead of ending the process; it steps down
 * as soon as the record names another, and when it is not `fit`; and `holds()` turns false by itself
 * renewDeadline after the last renewal was sent, also when the process was stopped meanwhile.
 */
export function createLeaseElection(dependencies: LeaseElectionDependencies): Leadership {
  const { client, identity, monotonic, timers, random, wallClock, log } = dependencies;
  const leaseDurationMs = dependencies.leaseDurationMs ?? 15_000;
  const renewDeadlineMs = dependencies.renewDeadlineMs ?? 10_000;
  const retryPeriodMs = dependencies.retryPeriodMs ?? 2_000;
  validate({ leaseDurationMs, renewDeadlineMs, retryPeriodMs, identity });

  const lock = createLeaseLock({
    client,
    namespace: dependencies.namespace,
    name: dependencies.name,
    // Half the deadline, as client-go does: one call that hangs leaves time for a second.
    timeoutMs: renewDeadlineMs / 2,
  });
  const listeners = new Set<(leading: boolean) => void>();
  /** The record as last seen, and when it was seen to change. */
  let observed: { record: ElectionRecord; at: number } | undefined;
  let leading = false;
  let heldUntil = -Infinity;
  let failing = false;

  function observe(record: ElectionRecord): void {
    const { holder } = record;
    const changed = holder !== (observed?.record.holder ?? "");
    observed = { record, at: monotonic() };
    if (changed && holder !== identity && holder !== "")
      log.info({ leader: holder }, "another process leads");
  }

  const isLeader = () => observed?.record.holder === identity;
  const isValid = () =>
    observed !== undefined && observed.at + observed.record.durationSeconds * 1_000 > monotonic();

  /** `before`: our record so far, of the same leadership. */
  function ownRecord(before?: ElectionRecord): ElectionRecord {
    const now = microTime(wallClock());
    return {
      holder: identity,
      durationSeconds: Math.floor(leaseDurationMs / 1_000),
      // Empty if somebody took it out of the Lease: the API server would refuse to get it back like that.
      acquireTime: before?.acquireTime || now,
      renewTime: now,
      transitions: before?.transitions ?? 0,
    };
  }

  /** One try; does not throw. True: the record names this process now. */
  async function tryAcquireOrRenew(deadline?: AbortSignal): Promise<boolean> {
    try {
      const ours = await acquireOrRenew(deadline);
      failing = false;
      return ours;
    } catch (error) {
      // Of several processes that start together all but one get this answer, and see at the next try who leads.
      if (!isLeader() && error instanceof ApiError && error.code === 409) {
        log.debug("another process was quicker to take the lease");
        failing = false;
        return false;
      }
      // Once for each outage: a candidate tries every few seconds.
      if (!failing) log.warn({ err: error }, "the lease could not be read or written");
      failing = true;
      return false;
    }
  }

  async function acquireOrRenew(deadline?: AbortSignal): Promise<boolean> {
    const began = monotonic();
    const write = async (how: "create" | "update", record: ElectionRecord) => {
      await lock[how](record, deadline);
      observe(record);
      heldUntil = began + renewDeadlineMs;
      return true;
    };
    const before = isLeader() && isValid() ? observed?.record : undefined;

    // 1. The leader's fast path: nobody else writes a valid lease, so the last version is the current one.
    if (before)
      try {
        return await write("update", ownRecord(before));
      } catch {
        // Somebody did write, or the answer was lost: read it.
      }

    // 2. Read the record, or be the first to write one.
    const current = await lock.get(deadline);
    if (!current) return write("create", ownRecord(before));

    // 3. Every change restarts the time: while the holder renews, the lease does not run out.
    if (!isDeepStrictEqual(observed?.record, current)) observe(current);
    if (current.holder !== "" && isValid() && !isLeader()) return false;

    // 4. The lease is ours, free or has run out: write it, unless somebody was quicker.
    if (isLeader()) return write("update", ownRecord(current));
    const transitions = current.transitions < MOST_TRANSITIONS ? current.transitions + 1 : 1;
    return write("update", { ...ownRecord(), transitions });
  }

  function setLeading(next: boolean): void {
    if (leading === next) return;
    leading = next;
    for (const listener of listeners) listener(next);
  }

  async function acquire(signal: AbortSignal, fit: () => boolean): Promise<boolean> {
    while (!signal.aborted) {
      if (!fit()) {
        await pause(FIT_POLL_MS, timers, signal);
        continue;
      }
      if (await tryAcquireOrRenew()) return true;
      await pause(retryPeriodMs * (1 + random() * JITTER_FACTOR), timers, signal);
    }
    return false;
  }

  /**
   * Renews until that fails for as long as the deadline, somebody else leads, this process is not fit any more, or the
   * signal aborts.
   */
  async function renew(signal: AbortSignal, fit: () => boolean): Promise<void> {
    while (!signal.aborted && fit()) {
      const cause = new Error(`no answer within ${renewDeadlineMs / 1_000} s`);
      const reason = new DependencyUnavailable("kubernetes", { cause });
      const renewed = await withTimeout({ ms: renewDeadlineMs, timers, reason }, async (late) => {
        while (!late.aborted) {
          if (await tryAcquireOrRenew(late)) return true;
          // The record names another process: more tries would not give it back.
          if (signal.aborted || !isLeader()) return false;
          await pause(retryPeriodMs, timers, AbortSignal.any([signal, late]));
        }
        return false;
      });
      if (!renewed) return;
      await pause(retryPeriodMs, timers, signal);
    }
  }

  /** Gives the lease up, so that the next leader need not wait for it to run out. */
  async function release(): Promise<void> {
    try {
      const current = await lock.get();
      if (!current || current.holder !== identity) return;
      const { transitions } = current;
      const released = { ...ownRecord(), holder: "", durationSeconds: 1, transitions };
      await lock.update(released);
      observe(released);
    } catch (error) {
      log.warn({ err: error }, "the lease could not be released; it runs out by itself");
    }
  }

  return {
    holds: () => leading && monotonic() < heldUntil,
    onChange(listener) {
      listeners.add(listener);
      listener(leading);
      return () => listeners.delete(listener);
    },
    async run(signal, fit = () => true) {
      while (await acquire(signal, fit)) {
        if (!signal.aborted) {
          log.info({ transitions: observed?.record.transitions }, "this process leads");
          setLeading(true);
          await renew(signal, fit);
        }
        // First stop, then let go: a process that reads a free lease starts at once.
        setLeading(false);
        if (!signal.aborted)
          log.warn(
            fit()
              ? "leadership was lost"
              : "leadership is given up: what a leader needs has not answered this process for long",
          );
        await release();
      }
    },
  };
}

function validate(input: {
  leaseDurationMs: number;
  renewDeadlineMs: number;
  retryPeriodMs: number;
  identity: string;
}): void {
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = input;
  if (!(retryPeriodMs > 0)) throw new Error("retryPeriodMs must be greater than zero");
  if (leaseDurationMs < 1_000 || leaseDurationMs % 1_000 !== 0)
    throw new Error("leaseDurationMs must be whole seconds: the Lease holds no fractions");
  if (!(leaseDurationMs > renewDeadlineMs))
    throw new Error("leaseDurationMs must be greater than renewDeadlineMs");
  if (!(renewDeadlineMs > JITTER_FACTOR * retryPeriodMs))
    throw new Error(`renewDeadlineMs must be greater than ${JITTER_FACTOR} times retryPeriodMs`);
  if (input.identity === "") throw new Error("an elector needs an identity");
}
