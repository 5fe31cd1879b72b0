import { required, type Configuration } from "../src/configuration/configuration.ts";
import { createFinishedJobs } from "../src/gateway/finished-jobs.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { maintain, logRemoved } from "./maintenance.ts";
import { endOnRejection } from "./termination.ts";

/**
 * Deletes one-time jobs that have long been finished, until `end`, which waits for the deletion under way. Runs in the
 * gateway, because the controller may change nothing of a job but its status.
 */
export function runFinishedJobs(options: {
  foundation: Foundation;
  configuration: Configuration;
  store: Pick<JobStoreChoice, "jobs">;
}): { end(): Promise<void> } {
  const { foundation, configuration, store } = options;
  const { history, ledger, clock, log, metrics } = foundation;
  const name = "finished one-time jobs";
  const finishedJobs = createFinishedJobs({
    jobs: store.jobs,
    history,
    ledger,
    clock,
    days: configuration.finishedJobsDays ?? required(configuration, "retentionDays"),
    onRemoved: (count) => {
      logRemoved(log, name, count);
    },
  });
  const ends = new AbortController();
  const running = maintain({ name, ...finishedJobs }, { log, metrics }, ends.signal);
  endOnRejection(running, log);
  return {
    async end() {
      ends.abort(new Error("the process ends"));
      await Promise.allSettled([running]);
    },
  };
}
