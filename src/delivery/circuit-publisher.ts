import type { Circuits, CircuitState } from "../domain/ports/circuits.ts";
import type { Logger } from "../telemetry/logger.ts";

/**
 * Publishes this process's breaker transitions, for REST and conditions. The latest state of each
 * destination wins; while the database is away they are lost, which only delays what people see.
 */
export function createCircuitPublisher(options: {
  circuits: Circuits;
  worker: string;
  log: Logger;
}): (transition: { destination: string; state: CircuitState }) => void {
  const { circuits, worker, log } = options;
  const waiting = new Map<string, CircuitState>();
  let publishing = false;

  async function publish(): Promise<void> {
    publishing = true;
    for (const [key, state] of waiting) {
      waiting.delete(key);
      const space = key.indexOf(" ");
      const [account, destination] = [key.slice(0, space), key.slice(space + 1)];
      try {
        await circuits.publish({ account, destination, worker, state });
      } catch (error) {
        log.warn({ err: error, account, destination, state }, "circuit state not published");
      }
    }
    publishing = false;
  }

  return ({ destination, state }) => {
    log.info({ destination, state }, "circuit breaker changed state");
    waiting.set(destination, state);
    if (!publishing) publish().catch(() => undefined);
  };
}
