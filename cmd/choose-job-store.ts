import type { Configuration } from "../src/configuration/configuration.ts";
import { required } from "../src/configuration/configuration.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { createKubernetesJobs } from "./kubernetes-jobs.ts";
import { createPostgresJobs } from "./postgres-jobs.ts";

/** By CARILLON_JOB_STORE. */
export function chooseJobStore(options: {
  foundation: Foundation;
  configuration: Configuration;
}): JobStoreChoice {
  return required(options.configuration, "jobStore") === "kubernetes"
    ? createKubernetesJobs(options)
    : createPostgresJobs(options.foundation);
}
