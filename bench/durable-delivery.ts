import { createCircuitBreakers } from "../src/delivery/circuit-breakers.ts";
import { createDeliveryWorker } from "../src/delivery/delivery-worker.ts";
import { createPostgresClock } from "../src/postgres/clock.ts";
import { createEmailLog } from "../src/postgres/email-log.ts";
import { createNotifications } from "../src/postgres/notifications.ts";
import { createPool } from "../src/postgres/pool.ts";
import { createRunLedger } from "../src/postgres/run-ledger.ts";
import { createRunQueue } from "../src/postgres/run-queue.ts";
import { createLogger } from "../src/telemetry/logger.ts";
import { monotonic, random, timers } from "../cmd/system.ts";
import { dueRuns } from "./due-runs.ts";
import { createLocalWebhook, SIGNING_SECRET } from "./local-webhook.ts";

/** The delivery worker as cmd/ composes it, without the scheduler. Each `start` creates a new one on the same queue. */
export async function createBenchWorker(options: { databaseUrl: string }) {
  const { databaseUrl } = options;
  const applicationName = "carillon bench";
  const pool = createPool({ url: databaseUrl, applicationName, max: 6, plans: "fixed" });
  const leasePool = createPool({ url: databaseUrl, applicationName, max: 2, plans: "fixed" });
  const notifications = createNotifications({ url: databaseUrl, applicationName });
  const clock = createPostgresClock({ pool: leasePool, monotonic });
  await clock.start();
  const log = createLogger({ level: "error" });
  const { metrics, webhook } = createLocalWebhook({ clock });
  const queue = createRunQueue({ pool, leasePool, notifications, random });

  return {
    pool,
    clock,
    ledger: createRunLedger({ pool }),
    /** Delivers until `stop`, which resolves when nothing is in flight. */
    start: (onRecorded: (runs: number) => void) => {
      const breakers = createCircuitBreakers({
        clock,
        monotonic,
        timers,
        metrics,
        onTransition: () => undefined,
      });
      const worker = createDeliveryWorker({
        queue: {
          ...queue,
          close: async (closings) => {
            const closed = await queue.close(closings);
            onRecorded(closed.size);
            return closed;
          },
        },
        clock,
        mailer: { send: async () => ({ kind: "unconfigured" }) },
        emailLog: createEmailLog({ pool }),
        webhook,
        signingSecrets: { current: async () => [SIGNING_SECRET] },
        smtpSettings: { revision: async () => undefined },
        breakers,
        random,
        timers,
        monotonic,
        metrics,
        log,
        workerId: `bench-${performance.now()}`,
      });
      const ending = new AbortController();
      const running = worker.run(ending.signal);
      return {
        stop: async () => {
          ending.abort();
          await running;
          breakers.close();
        },
      };
    },
    close: async () => {
      clock.stop();
      await webhook.close();
      await notifications.close();
      await Promise.all([pool.end(), leasePool.end()]);
    },
  };
}

export async function createDurableDelivery(options: { databaseUrl: string; url: string }) {
  const { url } = options;
  const { pool, clock, ledger, start, close } = await createBenchWorker(options);
  return {
    run: async ({ count }: { count: number }): Promise<number> => {
      await dueRuns({ ledger, count, urls: [url], now: clock.now() });
      let recorded = 0;
      const allRecorded = Promise.withResolvers<void>();
      const begun = performance.now();
      const worker = start((runs) => {
        recorded += runs;
        if (recorded >= count) allRecorded.resolve();
      });
      await allRecorded.promise;
      const seconds = (performance.now() - begun) / 1_000;
      // Asked only now: searching a table that is being emptied is work for the server.
      const { rows } = await pool.query<{ left: number }>("select count(*)::int as left from runs");
      if (rows[0]?.left !== 0) throw new Error("a run was recorded and is still there");
      await worker.stop();
      return count / seconds;
    },
    close,
  };
}
