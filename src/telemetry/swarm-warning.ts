import type { Monotonic } from "../domain/ports/clock.ts";
import type { Logger } from "./logger.ts";

/** Milliseconds after a warning in which further errors are only logged at debug level. */
const QUIET = 30_000;

/**
 * For what comes in swarms, such as the errors of an outage, which breaks every connection and fails each try to make
 * one: the first is a warning, and those within 30 s of it are logged at debug level.
 */
export function createSwarmWarning(options: {
  log: Pick<Logger, "warn" | "debug">;
  monotonic: Monotonic;
  message: string;
}): (fields: object) => void {
  const { log, monotonic, message } = options;
  let warned = -Infinity;
  return (fields) => {
    if (monotonic() - warned < QUIET) {
      log.debug(fields, message);
      return;
    }
    warned = monotonic();
    log.warn(fields, message);
  };
}
