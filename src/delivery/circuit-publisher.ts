import { partsOfKey } from "../domain/destination.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { Circuits, CircuitState } from "../domain/ports/circuits.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Transition } from "./circuit-breaker.ts";

export interface CircuitPublisher {
  /** Neither throws nor waits. */
  transition(transition: Transition): void;
  /** Nothing is published any more. */
  close(): void;
}

/** Milliseconds between tries while the database is away. */
const RETRY = 2_000;
/** Milliseconds between confirmations of what is published: of a process that says nothing it is not believed for long. */
const CONFIRM = 60_000;

/** One that stays open is probed every half minute, for as long as its destination is called: no news to anybody. */
function levelOf(from: CircuitState, state: CircuitState): "debug" | "info" | "warn" {
  if (state === "closed") return "info";
  return from === "closed" ? "warn" : "debug";
}

/**
 * Publishes this process's breaker transitions, for REST and conditions, and that they still hold. The latest state of
 * each destination wins; while the database is away it is kept and published afterwards, or a circuit that closed
 * meanwhile would go on looking open.
 */
export function createCircuitPublisher(options: {
  circuits: Pick<Circuits, "publish" | "confirm">;
  worker: string;
  timers: Timers;
  log: Pick<Logger, "debug" | "info" | "warn">;
}): CircuitPublisher {
  const { circuits, worker, timers, log } = options;
  const waiting = new Map<string, CircuitState>();
  /** What the table has of this process. */
  const published = new Set<string>();
  let confirmation: Timer | undefined;
  /** The database has been away since the last that was published. */
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
          // The database is there, and would say the same again: this state must not hold up those of others.
          log.warn(about, "circuit state not published");
          continue;
        }
        // One line for an outage.
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
