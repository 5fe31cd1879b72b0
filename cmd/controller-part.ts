import { required, type Configuration } from "../src/configuration/configuration.ts";
import { createController } from "../src/controller/controller.ts";
import { createCircuitBreakers } from "../src/delivery/circuit-breakers.ts";
import { createCircuitPublisher } from "../src/delivery/circuit-publisher.ts";
import { createDeliveryWorker } from "../src/delivery/delivery-worker.ts";
import { createWebhookSender } from "../src/delivery/webhook.ts";
import { createEmailLog } from "../src/postgres/email-log.ts";
import { createLedgerNews } from "../src/postgres/job-notifications.ts";
import { createRetention } from "../src/postgres/retention.ts";
import { createRunQueue } from "../src/postgres/run-queue.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { maintain, logRemoved } from "./maintenance.ts";
import { monotonic, random, timers } from "./system.ts";
import { endOnRejection } from "./termination.ts";
import { VERSION } from "./version.ts";

/**
 * A leader that cannot read the jobs, while others might, steps down after 30 s, as one without PostgreSQL does.
 * For the first 10 s its view is trusted, so that it may be stale for 20 s.
 */
const LEADS_STALE_MS = 20_000;

export interface RunningController {
  /**
   * Scheduling stops, and the Lease is given up, at once; unstarted runs are handed back, started ones
   * have 25 s.
   */
  end(): Promise<void>;
  /** Whether the jobs are known well enough to schedule them, should this process lead. */
  readonly working: boolean;
  /** Watched namespaces that refuse to be listed: their jobs wait. */
  readonly refused: readonly string[];
}

/** Scheduling, delivery and retention, running until `end`. A loop that fails ends the process. */
export function runController(options: {
  foundation: Foundation;
  configuration: Configuration;
  store: Pick<JobStoreChoice, "jobs" | "scheduling">;
  /** Names this process in the claims that it holds; unique for each start. */
  worker: string;
}): RunningController {
  const { foundation, configuration, worker } = options;
  const { jobs } = options.store;
  const scheduler = options.store.scheduling();
  const { leadership, reporter, secretHeaders } = scheduler;
  const { pool, runPool, leasePool, notifications, clock, metrics, log, mailer, dial } = foundation;
  const { ledger, circuits, signingSecrets, smtpSettings } = foundation;
  const queue = createRunQueue({
    pool: runPool,
    leasePool,
    notifications,
    random,
    onPastDeadline: (count) => {
      metrics.runsMissed.inc({ reason: "deadline" }, count);
    },
  });
  const controller = createController({
    jobs,
    ledger,
    news: createLedgerNews({ notifications }),
    clock,
    leadership,
    timers,
    monotonic,
    random,
    metrics,
    log,
    reporter,
  });
  const webhook = createWebhookSender({
    dial,
    clock,
    monotonic,
    metrics,
    version: VERSION,
    secretHeaders,
  });
  const publisher = createCircuitPublisher({ circuits, worker, timers, log });
  const breakers = createCircuitBreakers({
    clock,
    monotonic,
    timers,
    metrics,
    onTransition: (transition) => {
      publisher.transition(transition);
    },
  });
  const delivery = createDeliveryWorker({
    queue,
    clock,
    mailer,
    emailLog: createEmailLog({ pool }),
    webhook,
    signingSecrets,
    smtpSettings,
    breakers,
    random,
    timers,
    monotonic,
    metrics,
    log,
    workerId: worker,
    limits: { concurrency: required(configuration, "deliveryConcurrency") },
  });
  metrics.beforeScrape("queue", async () => {
    const { queued, started, oldestDueMs } = await queue.depth();
    metrics.queueDepth.set({ state: "queued" }, queued);
    metrics.queueDepth.set({ state: "started" }, started);
    metrics.queueOldestAge.set((oldestDueMs ?? 0) / 1_000);
  });

  metrics.beforeScrape("namespaces", () => {
    metrics.namespacesRefused.set(controller.refused.length);
  });

  const stop = new AbortController();
  const election = new AbortController();
  const retention = createRetention({
    pool,
    clock,
    retentionDays: required(configuration, "retentionDays"),
    onRemoved: (what, count) => {
      logRemoved(log, what, count);
    },
  });
  const scheduling = controller.run(stop.signal);
  // Replicas list and watch the jobs also while they do not lead: one that cannot does not stand for election.
  const elections = leadership.run(election.signal, () => controller.staleMs < LEADS_STALE_MS);
  const others = [
    delivery.run(stop.signal),
    maintain({ name: "history", ...retention }, { log, metrics }, stop.signal),
  ];
  for (const loop of [scheduling, elections, ...others]) endOnRejection(loop, log);
  return {
    get working() {
      return controller.staleMs === 0;
    },
    get refused() {
      return controller.refused;
    },
    async end() {
      stop.abort(new Error("the process ends"));
      await Promise.allSettled([scheduling]);
      // After the controller has ended: otherwise the next leader would decide beside it. Before the deliveries
      // have ended: otherwise nobody would schedule while this process only waits for them.
      election.abort(new Error("the process ends"));
      await Promise.allSettled([elections, ...others]);
      breakers.close();
      publisher.close();
      await webhook.close();
      await circuits.forget(worker).catch((error: unknown) => {
        log.warn({ err: error }, "circuits not forgotten");
      });
      await scheduler.close();
    },
  };
}
