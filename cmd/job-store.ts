import type { Configuration } from "../src/configuration/configuration.ts";
import { required } from "../src/configuration/configuration.ts";
import { alwaysLeader } from "../src/controller/always-leader.ts";
import { createPostgresJobIndex } from "../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../src/postgres/postgres-job-store.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { createKubernetesJobs } from "./kubernetes-jobs.ts";
import { monotonic, timers } from "./system.ts";

/** By CARILLON_JOB_STORE. */
export function chooseJobStore(options: {
  foundation: Foundation;
  configuration: Configuration;
}): JobStoreChoice {
  const { foundation, configuration } = options;
  const { pool, notifications } = foundation;
  if (required(configuration, "jobStore") === "kubernetes")
    return createKubernetesJobs({ foundation, configuration });
  return {
    jobs: createPostgresJobStore({ pool, notifications, timers }),
    jobIndex: createPostgresJobIndex({ pool, monotonic }),
    // Without an election every controller schedules; the cursor makes each run once all the same.
    leadership: alwaysLeader(),
    close: () => Promise.resolve(),
  };
}
