import { HOUR } from "../src/domain/instant.ts";
import { pause } from "../src/waiting/pause.ts";
import type { Logger } from "../src/telemetry/logger.ts";
import type { Metrics } from "../src/telemetry/metrics.ts";
import { random, timers } from "./system.ts";

/** Pause after a failure, shorter than the usual hour. */
const RETRY_MS = HOUR / 12;

/** A task that removes what is past its retention. */
export interface Maintenance {
  /** What it removes, for the log and the metric. */
  name: string;
  run(signal: AbortSignal): Promise<void>;
}

/** Runs the task at once and then about hourly, until the signal aborts. */
export async function maintain(
  maintenance: Maintenance,
  { log, metrics }: { log: Logger; metrics: Pick<Metrics, "retentionLastSuccess"> },
  signal: AbortSignal,
): Promise<void> {
  const succeeded = () => {
    metrics.retentionLastSuccess.set({ of: maintenance.name }, Date.now() / 1_000);
  };
  // At the start the last success counts as recent, or an alert would fire before the first run has ended.
  succeeded();
  while (!signal.aborted) {
    let wait = HOUR * (0.75 + random() / 4);
    try {
      await maintenance.run(signal);
      if (!signal.aborted) succeeded();
    } catch (error) {
      log.warn({ err: error, of: maintenance.name }, "retention did not finish");
      wait = RETRY_MS;
    }
    await pause(wait, timers, signal);
  }
}

/** Logs that a task removed something. */
export function logRemoved(log: Logger, what: string, count: number): void {
  log.info({ what, count }, "removed what is past its retention");
}
