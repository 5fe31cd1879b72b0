import { Bell } from "../waiting/bell.ts";
import type { Instant } from "../domain/instant.ts";
import type { SigningSecrets, SmtpSettingsStore } from "../domain/ports/accounts.ts";
import type { Clock, Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { pause } from "../waiting/pause.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { EmailLog, Mailer } from "../domain/ports/mail.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createCachedLookup } from "../waiting/cached-lookup.ts";
import { within } from "../waiting/within.ts";
import { createAttempt } from "./attempt.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import { CLAIM_TIMING, createClaimer } from "./claimer.ts";
import { deliveryLimits, type DeliveryLimits } from "./delivery-limits.ts";
import { createAttemptRunner } from "./attempt-runner.ts";
import { createHeldRuns } from "./held-runs.ts";
import { createLeaseKeeper } from "./lease-keeper.ts";
import { createOutcomeRecorder } from "./outcome-recorder.ts";
import { createStarter } from "./starter.ts";
import { createWarmUp } from "./warm-up.ts";
import type { WebhookSender } from "./webhook.ts";
import { createFullScanInterval } from "./full-scan-interval.ts";

/** Milliseconds. A dead worker's runs are taken over within the lease and twice the reap interval. */
const TIMING = {
  ...CLAIM_TIMING,
  renew: 5_000,
  reap: 3_000,
  unwanted: 1_500,
  /** How long an account's signing secrets are kept: a rotated one signs within this time. */
  signingKeys: 1_000,
  /** How long starts wait for a claim under way, which may need the slots. */
  filling: 150,
  /** How long starts wait for further ones during a burst; the first of it never waits. */
  collect: 2,
  /** From the signal until started runs are closed as interrupted. */
  grace: 25_000,
  /** For the last closings after that. */
  flush: 3_000,
};
/** Milliseconds between starts that belong to one burst. */
const BURST = 100;
/**
 * Milliseconds. When the measured clock gets ahead by more than this, it has stepped: no better measurement
 * explains that.
 */
const STEP = 1_000;
/** Accounts whose signing secrets are kept at a time. */
const MOST_SIGNING_KEYS = 10_000;

/**
 * Delivers what is due: claim, start, attempt, close. Several workers share one queue; what makes a
 * delivery happen at most once is the claim token that every write compares, and that `started` is
 * committed before the first byte. `run` resolves when the signal has aborted and everything is handed
 * back, delivered or closed as interrupted (within 28 s); it rejects only for faults of ours.
 */
export function createDeliveryWorker(options: {
  queue: RunQueue;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  emailLog: Pick<EmailLog, "append" | "locked">;
  webhook: Pick<WebhookSender, "send" | "warmUp">;
  signingSecrets: Pick<SigningSecrets, "current">;
  smtpSettings: Pick<SmtpSettingsStore, "revision">;
  breakers: CircuitBreakers;
  random: Random;
  timers: Timers;
  monotonic: Monotonic;
  metrics: Metrics;
  log: Logger;
  /** Names this process in claims and leases; unique for each start of a process. */
  workerId: string;
  limits?: Partial<DeliveryLimits>;
  timing?: Partial<typeof TIMING>;
}): { run(signal: AbortSignal): Promise<void> } {
  const { queue, clock, random, timers, monotonic, metrics, log } = options;
  const limits = deliveryLimits(options.limits);
  const timing = { ...TIMING, ...options.timing };
  const held = createHeldRuns(limits);
  const startBell = new Bell({ timers });
  const leases = createLeaseKeeper({
    queue,
    leaseMs: timing.lease,
    monotonic,
    onLost: ({ id }) => {
      held.forget(id);
      // Only a run in flight is worth a warning. One that waited was cancelled, or somebody else delivers it; and
      // when it was neither, its end has just been recorded, and the answer to that is on its way.
      if (runner.abort(id, "lost"))
        log.warn({ run: id }, "a run in flight was taken over by another worker");
    },
  });
  // Counters begin at 0, because one whose first value is 3 has not risen for Prometheus.
  for (const result of ["requeued", "interrupted"] as const) metrics.runsReaped.inc({ result }, 0);
  /** Monotonic time when the database was last seen away. */
  let lastOutage = -Infinity;
  /** How far PostgreSQL's clock was ahead of the monotonic one at the last reap; Infinity: not known. */
  let clockOffset = Infinity;
  const reaps = createFullScanInterval({ least: timing.reap });

  /**
   * Not while a claim is under way: the runs that it starts may end in a moment, and be recorded together with the
   * others.
   */
  function flushIfIdle(): void {
    if (held.inFlight === 0 && claimer.filling === undefined) recorder.flushSoon();
  }

  const warnOfOutage = createSwarmWarning({
    log,
    monotonic,
    message: "deliveries wait: PostgreSQL cannot be reached, or does not carry out what it is told",
  });
  function outage(error: unknown): void {
    if (error instanceof DependencyUnavailable) {
      lastOutage = monotonic();
      warnOfOutage({ err: error });
    } else log.error({ err: error }, "a delivery loop failed");
  }
  const recorder = createOutcomeRecorder({
    ...options,
    leases,
    onOutage: outage,
    onLockedOut: (of, waits) => {
      held.lockedOut(of, waits);
      if (!waits) claimer.recovered();
    },
    onWaiting: (since) => {
      // For runs that are due later, the next polls come in time.
      if (since <= clock.now()) claimer.news(since);
    },
  });
  /** The slot is free again, whatever became of the run. */
  function onFinished(run: ClaimedRun): void {
    const recovered = held.finished(run);
    if (held.waiting > 0) startBell.ring();
    if (recovered) claimer.recovered();
    flushIfIdle();
  }
  const runner = createAttemptRunner({
    ...options,
    leases,
    recorder,
    attempt: createAttempt({ ...options, emailLog: recorder.emails }),
    onFinished,
  });
  const signingKeys = createCachedLookup<readonly string[]>({
    ask: (account) => options.signingSecrets.current(account),
    ttlMs: timing.signingKeys,
    max: MOST_SIGNING_KEYS,
    monotonic,
  });
  const warmUp = createWarmUp({ ...options, held, signingKeys });
  const starter = createStarter({
    ...options,
    held,
    leases,
    recorder,
    runner,
    signingKeys,
    smtpRevision: (account) => options.smtpSettings.revision(account),
    onFinished,
    onOutage: outage,
  });

  const claimer = createClaimer({
    ...options,
    held,
    leases,
    limits,
    timing,
    congested: () => recorder.pending > limits.unrecorded || recorder.lockedOut > limits.lockedOut,
    lastOutage: () => lastOutage,
    onClaimed: (runs, asked, signal) => {
      starter.launchStarted(
        runs.filter((run) => run.started),
        asked,
        signal,
      );
      if (runs.some((run) => !run.started)) startBell.ring();
      flushIfIdle();
    },
    onOutage: outage,
  });

  async function startLoop(signal: AbortSignal): Promise<void> {
    let lastStart = -Infinity;
    while (!signal.aborted) {
      try {
        // Not for long: a limit that is exceeded now and then is better than all starts waiting for one slow claim.
        if (claimer.filling) await within(timing.filling, claimer.filling, timers);
        if (signal.aborted) break;
        if (!clock.known) {
          await startBell.wait(timing.poll, signal);
          continue;
        }
        const now = clock.now();
        const taken = await starter.startReady(now, signal);
        if (signal.aborted) break;
        warmUp.look(clock.now());
        if (taken > 0) {
          lastStart = monotonic();
          await pause(timing.collect, timers);
          continue;
        }
        await startBell.wait(untilNext(now), signal);
        // During a burst, the first slot that comes free is not worth a commit of its own.
        if (monotonic() - lastStart < BURST) await pause(timing.collect, timers);
      } catch (error) {
        outage(error);
        await startBell.wait(timing.afterError, signal);
      }
    }
  }

  /**
   * Milliseconds until the next start or warm-up, when all that was due until `upTo` has been taken: what has become due
   * since then must not wait for a poll.
   */
  function untilNext(upTo: Instant): number {
    const next = Math.min(held.nextDue(upTo) ?? Infinity, warmUp.next() ?? Infinity);
    return Math.min(timing.poll, next - clock.now());
  }

  async function repeat(
    signal: AbortSignal,
    interval: () => number,
    work: () => Promise<void>,
  ): Promise<void> {
    for (;;) {
      await pause(interval(), timers, signal);
      if (signal.aborted) return;
      try {
        await work();
      } catch (error) {
        outage(error);
      }
    }
  }

  /**
   * Takes over runs of dead workers. After an outage all leases have run out: workers get the time of a lease to
   * renew theirs.
   */
  async function reap(): Promise<void> {
    // Claims may then take effect after their leases: their workers get the time to give them back.
    if (await queue.commitsWait())
      throw new DependencyUnavailable("postgres", {
        cause: new Error("commits wait for a synchronous standby"),
      });
    const began = monotonic();
    // A clock that has stepped ahead ends all leases, as an outage does.
    const offset = clock.known ? clock.now() - began : Infinity;
    if (offset === Infinity || offset > clockOffset + STEP) lastOutage = began;
    clockOffset = offset;
    if (began - lastOutage < timing.lease) return;
    const { requeued, interrupted } = await queue.reap({
      // While somebody holds a lock on one of our runs, its outcome cannot be recorded, nor its lease renewed.
      except: leases.ids(),
      // Leaves out what PostgreSQL's clock has stepped ahead since it was last measured.
      asOf: clock.now(),
    });
    reaps.took(monotonic() - began);
    if (requeued + interrupted === 0) return;
    metrics.runsReaped.inc({ result: "requeued" }, requeued);
    metrics.runsReaped.inc({ result: "interrupted" }, interrupted);
    log.warn({ requeued, interrupted }, "took over the runs of a worker that is gone");
    claimer.news(null);
  }

  async function abortUnwanted(): Promise<void> {
    const ids = runner.ids();
    if (ids.length === 0) return;
    for (const [id, why] of await queue.unwanted(ids)) runner.abort(id, why);
  }

  return {
    run: async (signal) => {
      // Other workers may be coming back from the same outage as this process: they get the time of a lease, too.
      lastOutage = monotonic();
      const background = new AbortController();
      const loops = [
        repeat(
          background.signal,
          () => timing.renew,
          () => leases.renew(),
        ),
        repeat(background.signal, () => timing.unwanted, abortUnwanted),
        // A reap reads the whole queue: the longer that takes, the rarer it is done.
        repeat(signal, () => reaps.pause * (1 + random()), reap),
      ];
      const stopListening = queue.onWake((since) => {
        claimer.news(since);
      });
      let abortedAt = monotonic();
      const onAbort = (): void => {
        abortedAt = monotonic();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      try {
        await Promise.all([claimer.run(signal), startLoop(signal)]);
        for (const run of held.takeAll()) recorder.release(run);
        await within(timing.flush, claimer.giveBackUnanswered().catch(outage), timers);
        // Counted from the signal: the loops may have taken their time to end.
        const left = Math.max(0, abortedAt + timing.grace - monotonic());
        const landed = () => starter.idle().then(runner.idle);
        await within(left, Promise.all([landed(), recorder.idle()]), timers);
        runner.abortAll("interrupted");
        background.abort();
        await within(timing.flush, Promise.all([landed().then(recorder.idle), ...loops]), timers);
      } finally {
        stopListening();
        signal.removeEventListener("abort", onAbort);
        background.abort();
      }
    },
  };
}
