import { partsOfKey } from "../domain/destination.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { Circuits, CircuitState } from "../domain/ports/circuits.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Transition } from "./circuit-breakers.ts";

export interface CircuitPublisher {
  /** Neither throws nor waits. */
  transition(transition: Transition): void;
  /** Nothing is published any more. */
  close(): void;
}

/** Milliseconds between tries while the database is away. */
const RETRY = 2_000;
/** Milliseconds between confirmations of what is published: readers soon ignore a process that is silent. */
const CONFIRM = 60_000;

/** Between open and half-open: debug. A circuit that stays open is probed every half minute, which is no news. */
function levelOf(from: CircuitState, state: CircuitState): "debug" | "info" | "warn" {
  if (state === "closed") return "info";
  return from === "closed" ? "warn" : "debug";
}

/**
 * Publishes this process's breaker transitions, for REST and conditions, and confirms that they still hold. Only the
 * latest state of each destination is published; while the database is away it is kept, or a circuit that closed
 * meanwhile would go on looking open.
 */
export function createCircuitPublisher(options: {
  circuits: Pick<Circuits, "publish" | "confirm">;
  worker: string;
  timers: Timers;
  log: Pick<Logger, "debug" | "info" | "warn">;
}): CircuitPublisher {
  const { circuits, worker, timers, log } = options;
  /** States to be published, by `destinationKey`. */
  const waiting = new Map<string, CircuitState>();
  /** Destinations of which the table has a state from this process. */
  const published = new Set<string>();
  let confirmation: Timer | undefined;
  /** The database has been away since the last state that was published. */
  let away = false;
  let publishing = false;
  let retry: Timer | undefined;
  let closed = false;

  async function publish(): Promise<void> {
    publishing = true;
    for (const [key, state] of waiting) {
      if (closed) break;
      const { account, destination } = partsOfKey(key);
      waiting.delete(key);
      try {
        await circuits.publish({ account, destination, worker, state });
        away = false;
        if (state === "closed") published.delete(key);
        else published.add(key);
        confirmLater();
      } catch (error) {
        const about = { err: error, account, destination, state };
        if (!(error instanceof DependencyUnavailable)) {
          // The database is there, and would refuse this state again: it is dropped, so that the others go on.
          log.warn(about, "circuit state not published");
          continue;
        }
        // One warning for each outage.
        log[away ? "debug" : "warn"](about, "circuit state not published yet");
        away = true;
        // Unless it changed again in the meantime.
        if (!waiting.has(key)) waiting.set(key, state);
        break;
      }
    }
    publishing = false;
    if (waiting.size > 0 && !closed) retry = timers.after(RETRY, start);
  }

  function confirmLater(ms = CONFIRM): void {
    if (!closed && published.size > 0) confirmation ??= timers.after(ms, () => void confirm());
  }

  async function confirm(): Promise<void> {
    let next = CONFIRM;
    try {
      await circuits.confirm(worker);
    } catch (error) {
      log.debug({ err: error }, "circuit states not confirmed yet");
      next = RETRY;
    }
    confirmation = undefined;
    confirmLater(next);
  }

  function start(): void {
    retry?.cancel();
    retry = undefined;
    publish().catch((error: unknown) => {
      log.warn({ err: error }, "circuit states not published");
    });
  }

  return {
    transition: ({ destination, from, state }) => {
      log[levelOf(from, state)]({ destination, state }, "circuit breaker changed state");
      if (closed) return;
      waiting.set(destination, state);
      // While a retry is awaited, everything waits for it: the database is away.
      if (!publishing && retry === undefined) start();
    },
    close: () => {
      closed = true;
      retry?.cancel();
      confirmation?.cancel();
    },
  };
}
