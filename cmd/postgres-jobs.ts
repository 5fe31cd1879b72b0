import { alwaysLeader } from "../src/controller/always-leader.ts";
import { createPostgresJobIndex } from "../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../src/postgres/postgres-job-store.ts";
import type { Foundation } from "./foundation.ts";
import type { JobStoreChoice } from "./job-store-choice.ts";
import { monotonic, timers } from "./system.ts";

/** Jobs in a table of PostgreSQL. */
export function createPostgresJobs({ pool, notifications }: Foundation): JobStoreChoice {
  return {
    jobs: createPostgresJobStore({ pool, notifications, timers }),
    jobIndex: createPostgresJobIndex({ pool, monotonic }),
    scheduling: () => ({ leadership: alwaysLeader(), close: () => Promise.resolve() }),
  };
}
