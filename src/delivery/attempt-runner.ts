import type { Clock, Monotonic, Random } from "../domain/ports/clock.ts";
import type { ClaimedRun } from "../domain/run.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { LightAbort } from "../waiting/light-abort.ts";
import type { Attempt, AttemptOutcome } from "./attempt.ts";
import type { Permit } from "./circuit-breakers.ts";
import { type AbortCause, type FinishedAttempt, conclude, verdictOf } from "./conclusion.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";
import type { OutcomeRecorder } from "./outcome-recorder.ts";

/** A run that may be sent. */
export interface ReadyRun {
  run: ClaimedRun;
  permit: Permit;
  signingSecrets: readonly string[];
}

/** Attempts under way: from a started run to what is recorded of it. */
export interface AttemptRunner {
  launch(ready: ReadyRun): void;
  /** Records what an attempt came to; also one that was never made. */
  record(attempted: FinishedAttempt): void;
  /** Ids of the runs in flight. */
  ids(): string[];
  /** False: that run is not in flight. */
  abort(id: string, cause: AbortCause): boolean;
  abortAll(cause: AbortCause): void;
  /** Resolves when there is none. */
  readonly idle: () => Promise<void>;
}

interface InFlight {
  cancellation: LightAbort;
  cause: AbortCause | null;
  done: Promise<void>;
}

export function createAttemptRunner(options: {
  clock: Clock;
  random: Random;
  monotonic: Monotonic;
  metrics: Metrics;
  log: Logger;
  leases: Pick<LeaseKeeper, "holds" | "remove">;
  recorder: Pick<OutcomeRecorder, "close" | "release">;
  attempt: Attempt;
  /** The slot is free again, whatever became of the run. */
  onFinished: (run: ClaimedRun) => void;
}): AttemptRunner {
  const { clock, random, monotonic, metrics, log, leases, recorder, attempt, onFinished } = options;
  const inFlight = new Map<string, InFlight>();

  metrics.beforeScrape("runs in flight", () => {
    metrics.runsInFlight.set(inFlight.size);
  });

  function launch(ready: ReadyRun): void {
    const { run } = ready;
    const flight: InFlight = {
      cancellation: new LightAbort(),
      cause: null,
      done: Promise.resolve(),
    };
    // The claim was lost and won back before anybody noticed: the older attempt does not count any more.
    const older = inFlight.get(run.id);
    if (older) abort(older, "lost");
    inFlight.set(run.id, flight);
    flight.done = runToEnd(ready, flight);
  }

  async function runToEnd(ready: ReadyRun, flight: InFlight): Promise<void> {
    const { run } = ready;
    try {
      await deliver(ready, flight);
    } catch (error) {
      // The lease runs out, and a reaper closes the run as interrupted. Renewed, it would stay under way for good.
      leases.remove(run);
      log.error({ err: error, run: run.id }, "an attempt could not be concluded");
    } finally {
      if (inFlight.get(run.id) === flight) inFlight.delete(run.id);
      onFinished(run);
    }
  }

  async function deliver(
    { run, permit, signingSecrets }: ReadyRun,
    flight: InFlight,
  ): Promise<void> {
    const type = run.spec.target.kind;
    const executedAt = clock.now();
    const began = monotonic();
    // Without runs that an open circuit put off: they may be hours late, and say nothing about the workers.
    if (run.attempt === 1 && run.notBefore <= run.scheduledAt)
      metrics.runLateness.observe({ type }, Math.max(0, executedAt - run.scheduledAt) / 1_000);
    let outcome: AttemptOutcome = { kind: "not_sent" };
    try {
      outcome = await attempt({
        run,
        signingSecrets,
        cancellation: flight.cancellation,
        maySend: () => leases.holds(run),
      });
    } finally {
      permit.settle(verdictOf(outcome, flight.cause));
    }
    const durationMs = monotonic() - began;
    metrics.runDeliveryDuration.observe({ type }, durationMs / 1_000);
    record({ run, outcome, aborted: flight.cause, executedAt, durationMs });
  }

  function record(attempted: FinishedAttempt): void {
    const { run } = attempted;
    const conclusion = conclude({ ...attempted, now: clock.now(), random });
    switch (conclusion.kind) {
      case "close":
        metrics.runs.inc({ type: run.spec.target.kind, outcome: conclusion.label });
        if (conclusion.closing.next === "halted")
          log.warn(
            { job: run.jobId, account: run.account, run: run.id },
            "the receiver answered 410 Gone: the job is halted until it is resumed or changed",
          );
        recorder.close(conclusion.closing);
        break;
      case "release":
        recorder.release(run, conclusion.notBefore);
        break;
      case "drop":
        leases.remove(run);
        break;
    }
  }

  function abort(flight: InFlight, cause: AbortCause): void {
    flight.cause ??= cause;
    flight.cancellation.abort(new Error(cause));
  }

  return {
    launch,
    record,
    ids: () => Array.from(inFlight.keys()),
    abort: (id, cause) => {
      const flight = inFlight.get(id);
      if (flight) abort(flight, cause);
      return flight !== undefined;
    },
    abortAll: (cause) => {
      for (const flight of inFlight.values()) abort(flight, cause);
    },
    idle: async () => {
      while (inFlight.size > 0)
        await Promise.allSettled(Array.from(inFlight.values(), (flight) => flight.done));
    },
  };
}
