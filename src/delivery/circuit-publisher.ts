import { partsOfKey } from "../domain/destination.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { Circuits, CircuitState } from "../domain/ports/circuits.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { Logger } from "../telemetry/logger.ts";

export interface CircuitPublisher {
  /** Neither throws nor waits. */
  transition(transition: { destination: string; state: CircuitState }): void;
  /** Nothing is published any more. */
  close(): void;
}

/** Milliseconds between tries while the database is away. */
const RETRY = 2_000;

/**
 * Publishes this process's breaker transitions, for REST and conditions. The latest state of each
 * destination wins; while the database is away it is kept and published afterwards, or a circuit that
 * closed meanwhile would look open for an hour.
 */
export function createCircuitPublisher(options: {
  circuits: Pick<Circuits, "publish">;
  worker: string;
  timers: Timers;
  log: Pick<Logger, "info" | "warn">;
}): CircuitPublisher {
  const { circuits, worker, timers, log } = options;
  const waiting = new Map<string, CircuitState>();
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
      } catch (error) {
        const away = error instanceof DependencyUnavailable;
        log.warn(
          { err: error, account, destination, state },
          away ? "circuit state not published yet" : "circuit state not published",
        );
        // The database is there, and would say the same again: this state must not hold up those of others.
        if (!away) continue;
        // Unless it changed again in the meantime.
        if (!waiting.has(key)) waiting.set(key, state);
        break;
      }
    }
    publishing = false;
    if (waiting.size > 0 && !closed) retry = timers.after(RETRY, start);
  }

  function start(): void {
    retry?.cancel();
    retry = undefined;
    publish().catch((error: unknown) => {
      log.warn({ err: error }, "circuit states not published");
    });
  }

  return {
    transition: ({ destination, state }) => {
      const level = state === "open" ? "warn" : "info";
      log[level]({ destination, state }, "circuit breaker changed state");
      if (closed) return;
      waiting.set(destination, state);
      // While a retry is awaited, everything waits for it: the database is away.
      if (!publishing && retry === undefined) start();
    },
    close: () => {
      closed = true;
      retry?.cancel();
    },
  };
}
