import type { JobIndex } from "../src/domain/ports/job-index.ts";
import type { JobStore } from "../src/domain/ports/job-store.ts";
import type { Leadership } from "../src/domain/ports/leadership.ts";
import type { SecretHeaders } from "../src/domain/ports/secret-headers.ts";
import type { StatusReporter } from "../src/domain/ports/status-reporter.ts";

/** Where jobs live. */
export interface JobStoreChoice {
  jobs: JobStore;
  /** The same jobs, for the dashboard's lists. */
  jobIndex: JobIndex;
  /** What a process that schedules and delivers needs besides. To be called once in a process. */
  scheduling(): Scheduling;
}

/** Who may schedule, and where status goes. */
export interface Scheduling {
  leadership: Leadership;
  reporter?: StatusReporter;
  /** Header values from the namespace's Secrets. */
  secretHeaders?: SecretHeaders;
  close(): Promise<void>;
}
