import { Bell } from "../waiting/bell.ts";
import type { Instant } from "../domain/instant.ts";
import type { SigningSecrets, SmtpSettingsStore } from "../domain/ports/accounts.ts";
import type { Clock, Monotonic, Random, Timers } from "../domain/ports/clock.ts";
import { pause } from "../waiting/pause.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { EmailLog, Mailer } from "../domain/ports/mail.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createFreshAnswers } from "../waiting/fresh-answers.ts";
import { within } from "../waiting/within.ts";
import { createAttempt } from "./attempt.ts";
import type { CircuitBreakers } from "./circuit-breaker.ts";
import { CLAIM_TIMING, createClaimer } from "./claimer.ts";
import { deliveryLimits, type DeliveryLimits } from "./delivery-limits.ts";
import { createFlights } from "./flights.ts";
import { createHeldRuns } from "./held-runs.ts";
import { createLeaseKeeper } from "./lease-keeper.ts";
import { createRecords } from "./records.ts";
import { createStarter } from "./starter.ts";
import type { WebhookSender } from "./webhook.ts";
import { createWholeLooks } from "./whole-looks.ts";

/** Milliseconds. A dead worker's runs are taken over within the lease and twice the reap interval. */
const TIMING = {
  ...CLAIM_TIMING,
  renew: 5_000,
  reap: 3_000,
  unwanted: 1_500,
  /** After which an account's signing secrets are asked for again: within it a rotated one signs. */
  signingKeys: 1_000,
  /** That starts wait at most for a claim under way, which may need the slots. */
  filling: 150,
  /** That starts wait for company while many follow each other; the first never does. */
  collect: 2,
  /** From the signal until started runs are closed as interrupted. */
  grace: 25_000,
  /** For the last closings after that. */
  flush: 3_000,
};
/** Milliseconds within which starts belong together. */
const BURST = 100;
/** Milliseconds. What PostgreSQL's clock gets ahead by more than that has not been measured more exactly: it has stepped. */
const STEP = 1_000;
/** Accounts whose signing secrets are kept for that long. */
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
  webhook: Pick<WebhookSender, "send">;
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
      // What only waited was cancelled, or somebody else delivers it; and of what is neither waiting nor in flight
      // the end has just been recorded, and the answer to that is on its way.
      if (flights.abort(id, "lost"))
        log.warn({ run: id }, "a run in flight was taken over by another worker");
    },
  });
  // Or what the first ones that it takes over are worth would not be seen: a counter that begins with 3 has not risen.
  for (const result of ["requeued", "interrupted"] as const) metrics.runsReaped.inc({ result }, 0);
  /** Monotonic time when the database was last seen away. */
  let lastOutage = -Infinity;
  /** By how much PostgreSQL's clock was ahead of the monotonic one when dead workers' runs were last looked for. */
  let clockOffset = Infinity;
  const reaps = createWholeLooks({ least: timing.reap });

  /** What a claim under way brings may be over in a moment. */
  function hurryIfIdle(): void {
    if (held.inFlight === 0 && claimer.filling === undefined) records.hurry();
  }

  const warnOfOutage = createSwarmWarning({
    log,
    monotonic,
    message: "deliveries wait: PostgreSQL cannot be reached, or does not carry out what it is told",
  });
  function outage(error: unknown): void {
    if (error instanceof DependencyUnavailable) {
      lastOutage = monotonic();
      warnOfOutage(error);
    } else log.error({ err: error }, "a delivery loop failed");
  }
  const records = createRecords({
    ...options,
    leases,
    onOutage: outage,
    onWaiting: (since) => {
      // Claims come by in time for all others.
      if (since <= clock.now()) claimer.news(since);
    },
  });
  /** The slot is free again, whatever became of the run. */
  function onFinished(run: ClaimedRun): void {
    const recovered = held.finished(run);
    if (held.waiting > 0) startBell.ring();
    if (recovered) claimer.recovered();
    hurryIfIdle();
  }
  const flights = createFlights({
    ...options,
    leases,
    records,
    attempt: createAttempt({ ...options, emailLog: records.emails }),
    onFinished,
  });
  const starter = createStarter({
    ...options,
    held,
    leases,
    records,
    flights,
    signingKeys: createFreshAnswers<readonly string[]>({
      ask: (account) => options.signingSecrets.current(account),
      freshMs: timing.signingKeys,
      max: MOST_SIGNING_KEYS,
      monotonic,
    }),
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
    unrecorded: () => records.pending,
    lastOutage: () => lastOutage,
    onClaimed: (runs, asked, signal) => {
      starter.launchStarted(
        runs.filter((run) => run.started),
        asked,
        signal,
      );
      if (runs.some((run) => !run.started)) startBell.ring();
      hurryIfIdle();
    },
    onOutage: outage,
  });

  async function startLoop(signal: AbortSignal): Promise<void> {
    let lastStart = -Infinity;
    while (!signal.aborted) {
      try {
        // A limit that is exceeded now and then is better than all starts behind one slow claim.
        if (claimer.filling) await within(timing.filling, claimer.filling, timers);
        if (signal.aborted) break;
        const now = clock.known ? clock.now() : undefined;
        if (now !== undefined && (await starter.startReady(now, signal)) > 0) {
          lastStart = monotonic();
          await pause(timing.collect, timers);
          continue;
        }
        await startBell.wait(now === undefined ? timing.poll : untilNextDue(now), signal);
        // The first attempt of a burst to end is not worth a commit of its own.
        if (monotonic() - lastStart < BURST) await pause(timing.collect, timers);
      } catch (error) {
        outage(error);
        await startBell.wait(timing.afterError, signal);
      }
    }
  }

  /** From the moment at which all that was due had been taken: what has become due since is not to wait for a poll. */
  function untilNextDue(now: Instant): number {
    const next = held.nextDue(now);
    return next === null ? timing.poll : Math.min(timing.poll, next - now);
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

  /** After an outage everybody's leases have run out: those who come back get one lease to renew theirs. */
  async function reap(): Promise<void> {
    const began = monotonic();
    // By a clock that has stepped ahead everybody's have run out, too.
    const offset = clock.known ? clock.now() - began : Infinity;
    if (offset === Infinity || offset > clockOffset + STEP) lastOutage = began;
    clockOffset = offset;
    if (began - lastOutage < timing.lease) return;
    // While somebody holds a lock on a run its outcome is not recorded, and its lease not renewed: both wait for that.
    const { requeued, interrupted } = await queue.reap({
      except: leases.ids(),
      // A step that has not been measured yet is none.
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
    const ids = flights.ids();
    if (ids.length === 0) return;
    for (const [id, why] of await queue.unwanted(ids)) flights.abort(id, why);
  }

  return {
    run: async (signal) => {
      // Other workers may be coming back from the same outage as this process: they get one lease, too.
      lastOutage = monotonic();
      const background = new AbortController();
      const loops = [
        repeat(
          background.signal,
          () => timing.renew,
          () => leases.renew(),
        ),
        repeat(background.signal, () => timing.unwanted, abortUnwanted),
        // It reads the queue: the longer that takes, the rarer.
        repeat(signal, () => reaps.pause * (1 + random()), reap),
      ];
      const stopListening = queue.onWake((since) => {
        claimer.news(since);
      });
      let told = monotonic();
      const tell = (): void => {
        told = monotonic();
      };
      signal.addEventListener("abort", tell, { once: true });
      try {
        await Promise.all([claimer.run(signal), startLoop(signal)]);
        for (const run of held.takeAll()) records.release(run);
        await within(timing.flush, claimer.giveBackUnanswered().catch(outage), timers);
        // A statement of the loops may have taken its time.
        const left = Math.max(0, told + timing.grace - monotonic());
        const landed = () => starter.idle().then(flights.idle);
        await within(left, Promise.all([landed(), records.idle()]), timers);
        flights.abortAll("interrupted");
        background.abort();
        await within(timing.flush, Promise.all([landed().then(records.idle), ...loops]), timers);
      } finally {
        stopListening();
        signal.removeEventListener("abort", tell);
        background.abort();
      }
    },
  };
}
