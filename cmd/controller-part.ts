import type { Configuration } from "../src/configuration/configuration.ts";
import { required } from "../src/configuration/configuration.ts";
import { createController, type ControllerDeps } from "../src/controller/controller.ts";
import type { JobStore } from "../src/domain/ports/job-store.ts";
import type { Leadership } from "../src/domain/ports/leadership.ts";
import { createRunLedger } from "../src/postgres/run-ledger.ts";
import { createRunQueue } from "../src/postgres/run-queue.ts";
import type { Foundation } from "./foundation.ts";
import { maintain } from "./maintenance.ts";
import { monotonic, random, timers } from "./system.ts";

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
  /** Names this process in the claims that it holds. */
  worker: string;
}): RunningController {
  const { foundation, configuration, jobs, leadership, reporter } = options;
  const { pool, leasePool, notifications, clock, metrics, log } = foundation;
  const queue = createRunQueue({ pool, leasePool, notifications, random });
  const controller = createController({
    jobs,
    ledger: createRunLedger({ pool }),
    clock,
    leadership,
    timers,
    monotonic,
    random,
    metrics,
    log,
    ...(reporter ? { reporter } : {}),
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
      // Last: a lease that is given up while the controller still decides would have two deciding.
      election.abort(new Error("the process ends"));
      await elections;
    },
  };
}
