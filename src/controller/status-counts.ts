import { JOB_STATUSES, type JobStatus } from "../domain/job.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** The gauge of jobs by status, kept up by moves instead of counting 100,000 jobs at each scrape. */
export class StatusCounts {
  readonly #gauge: Metrics["jobs"];

  constructor(options: { gauge: Metrics["jobs"] }) {
    this.#gauge = options.gauge;
    this.clear();
  }

  move(from: JobStatus | undefined, to: JobStatus | undefined): void {
    if (from === to) return;
    if (from !== undefined) this.#gauge.dec({ status: from });
    if (to !== undefined) this.#gauge.inc({ status: to });
  }

  clear(): void {
    for (const status of JOB_STATUSES) this.#gauge.set({ status }, 0);
  }
}
