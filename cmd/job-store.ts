import type { Configuration } from "../src/configuration/configuration.ts";
import { required } from "../src/configuration/configuration.ts";
import type { ControllerDeps } from "../src/controller/controller.ts";
import { alwaysLeader } from "../src/controller/always-leader.ts";
import type { JobIndex } from "../src/domain/ports/job-index.ts";
import type { JobStore } from "../src/domain/ports/job-store.ts";
import type { Leadership } from "../src/domain/ports/leadership.ts";
import { createPostgresJobIndex } from "../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../src/postgres/postgres-job-store.ts";
import type { SecretHeaders } from "../src/delivery/webhook.ts";
import type { Foundation } from "./foundation.ts";
import { createKubernetesJobs } from "./kubernetes-jobs.ts";
import { monotonic } from "./system.ts";

/** Where jobs live, and what comes with the place: who may schedule, and where status goes. */
export interface JobStoreChoice {
  jobs: JobStore;
  /** The same jobs, for the dashboard's lists. */
  jobIndex: JobIndex;
  leadership: Leadership;
  reporter?: NonNullable<ControllerDeps["reporter"]>;
  /** Header values out of the namespace's Secrets. */
  secretHeaders?: SecretHeaders;
  close(): Promise<void>;
}

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
    jobs: createPostgresJobStore({ pool, notifications }),
    jobIndex: createPostgresJobIndex({ pool, monotonic }),
    // Without an election every controller schedules; the cursor makes each run once all the same.
    leadership: alwaysLeader(),
    close: () => Promise.resolve(),
  };
}
