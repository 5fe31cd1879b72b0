import { HOUR } from "../src/domain/instant.ts";
import { pause } from "../src/domain/pause.ts";
import type { Clock } from "../src/domain/ports/clock.ts";
import type { Pool } from "../src/postgres/pool.ts";
import { createRetention } from "../src/postgres/retention.ts";
import type { Logger } from "../src/telemetry/logger.ts";
import { random, timers } from "./system.ts";

/** After an outage, sooner than the usual hour. */
const RETRY_MS = HOUR / 12;

/** Removes what is past its time, at start and then about hourly, until the signal aborts. */
export async function maintain(
  options: { pool: Pool; clock: Clock; retentionDays: number; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { pool, clock, retentionDays, log } = options;
  const retention = createRetention({
    pool,
    clock,
    retentionDays,
    onRemoved: (what, count) => {
      log.info({ what, count }, "removed what is past its retention");
    },
  });
  while (!signal.aborted) {
    let wait = HOUR * (0.75 + random() / 4);
    try {
      await retention.run(signal);
    } catch (error) {
      log.warn({ err: error }, "retention did not finish");
      wait = RETRY_MS;
    }
    await pause(wait, timers, signal);
  }
}
