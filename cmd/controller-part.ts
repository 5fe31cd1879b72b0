import type { Configuration } from "../src/configuration/configuration.ts";
import { required } from "../src/configuration/configuration.ts";
import { createController, type ControllerDeps } from "../src/controller/controller.ts";
import { createCircuitBreakers } from "../src/delivery/circuit-breaker.ts";
import { createCircuitPublisher } from "../src/delivery/circuit-publisher.ts";
import { createDeliveryWorker } from "../src/delivery/delivery-worker.ts";
import { createWebhookSender, type SecretHeaders } from "../src/delivery/webhook.ts";
import type { JobStore } from "../src/domain/ports/job-store.ts";
import type { Leadership } from "../src/domain/ports/leadership.ts";
import { createCircuits } from "../src/postgres/circuits.ts";
import { createEmailLog } from "../src/postgres/email-log.ts";
import { createLedgerNews } from "../src/postgres/ledger-news.ts";
import { createRunLedger } from "../src/postgres/run-ledger.ts";
import { createRunQueue } from "../src/postgres/run-queue.ts";
import { createSigningSecrets } from "../src/postgres/signing-secrets.ts";
import type { Foundation } from "./foundation.ts";
import { maintain } from "./maintenance.ts";
import { monotonic, random, timers } from "./system.ts";
import { VERSION } from "./version.ts";

export interface RunningController {
  /** Scheduling stops at once; unstarted runs are handed back, started ones have 25 s. */
  end(): Promise<void>;
  /** One of the loops has ended by itself, which is a fault of ours. */
  onFailure(listener: (error: unknown) => void): void;
  /** Whether the job store has been listed once. */
  readonly synced: boolean;
}

/** Scheduling, delivery and retention, running until `end`. */
export function runController(options: {
  foundation: Foundation;
  configuration: Configuration;
  jobs: JobStore;
  leadership: Leadership;
  reporter?: ControllerDeps["reporter"];
  /** Header values out of Kubernetes Secrets. */
  secretHeaders?: SecretHeaders;
  /** Names this process in the claims that it holds; unique for each start. */
  worker: string;
}): RunningController {
  const { foundation, configuration, jobs, leadership, reporter, secretHeaders, worker } = options;
  const { pool, runPool, leasePool, notifications, clock, metrics, log, keyRing, mailer, dial } =
    foundation;
  const queue = createRunQueue({ pool: runPool, leasePool, notifications, random });
  const controller = createController({
    jobs,
    ledger: createRunLedger({ pool: runPool }),
    news: createLedgerNews({ notifications }),
    clock,
    leadership,
    timers,
    monotonic,
    random,
    metrics,
    log,
    ...(reporter ? { reporter } : {}),
  });
  const webhook = createWebhookSender({
    dial,
    clock,
    monotonic,
    metrics,
    version: VERSION,
    ...(secretHeaders ? { secretHeaders } : {}),
  });
  const circuits = createCircuits({ pool });
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
    signingSecrets: createSigningSecrets({ pool, keyRing }),
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

  const stop = new AbortController();
  const election = new AbortController();
  const retentionDays = required(configuration, "retentionDays");
  const loops = [
    controller.run(stop.signal),
    delivery.run(stop.signal),
    maintain({ pool, clock, retentionDays, log }, stop.signal),
  ];
  const elections = leadership.run(election.signal);
  return {
    get synced() {
      return controller.synced;
    },
    onFailure(listener) {
      for (const loop of [...loops, elections]) loop.catch(listener);
    },
    async end() {
      stop.abort(new Error("the process ends"));
      await Promise.allSettled(loops);
      breakers.close();
      publisher.close();
      await webhook.close();
      await circuits.forget(worker).catch((error: unknown) => {
        log.warn({ err: error }, "circuits not forgotten");
      });
      // Last: a lease that is given up while the controller still decides would have two deciding.
      election.abort(new Error("the process ends"));
      await elections;
    },
  };
}
