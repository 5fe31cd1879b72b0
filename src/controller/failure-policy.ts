import type { Random } from "../domain/ports/clock.ts";
import { ContentRefused } from "../domain/ports/content-refused.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Logger } from "../telemetry/logger.ts";
import { backoffMs } from "../waiting/backoff.ts";

/** After so many failing batches in a row, with PostgreSQL reachable, it is not one bad job that makes them fail. */
const MAX_BISECTIONS = 16;

/** How the loop goes on after a batch has failed. */
export type AfterFailure =
  /** With a smaller batch, at once. */
  | { next: "bisect" }
  /** The same, but the batch was a single job: that one is put off. */
  | { next: "put_off"; uid: string }
  | { next: "pause"; ms: number };

/**
 * Whose fault it is that a batch failed: a job's, which is found by halving the batch until it stands alone, or
 * PostgreSQL's, which gets time, and smaller batches. Owns the size of batches, which doubles with each that succeeds.
 */
export class FailurePolicy {
  readonly #mostJobs: number;
  readonly #answers: (uids: readonly string[]) => Promise<boolean>;
  readonly #random: Random;
  readonly #log: Logger;
  #limit: number;
  /** Pauses in a row. */
  #failures = 0;
  #bisections = 0;

  constructor(options: {
    /** The most jobs in a batch. */
    mostJobs: number;
    /** Whether PostgreSQL works, as far as a read of these jobs tells. */
    answers: (uids: readonly string[]) => Promise<boolean>;
    random: Random;
    log: Logger;
  }) {
    this.#mostJobs = options.mostJobs;
    this.#answers = options.answers;
    this.#random = options.random;
    this.#log = options.log;
    this.#limit = options.mostJobs;
  }

  /** The most jobs that the next batch may take. */
  get limit(): number {
    return this.#limit;
  }

  /** A batch, or other work without `jobs`, is done. */
  succeeded(jobs: readonly string[]): void {
    if (this.#failures > 0) this.#log.info("PostgreSQL answers again; scheduling goes on");
    this.#failures = 0;
    if (jobs.length === 0) return;
    this.#bisections = 0;
    this.#limit = Math.min(this.#mostJobs, this.#limit * 2);
  }

  /** The batch with these jobs, or other work without any, has failed. */
  async failed(jobs: readonly string[], error: unknown): Promise<AfterFailure> {
    if (error instanceof DependencyUnavailable) {
      // No job's fault, even if a read works: a demoted primary answers reads and refuses writes. If the batch took
      // too long, a smaller one gets through.
      this.#limit = half(this.#limit);
      return this.#pause(error);
    }
    // Any number of jobs may be refused for their content. Any other failure may be PostgreSQL's own trouble: those are
    // counted.
    if (!(error instanceof ContentRefused)) {
      if (jobs.length === 0 || this.#bisections >= MAX_BISECTIONS || !(await this.#answers(jobs)))
        return this.#pause(error);
      this.#bisections += 1;
    }
    this.#limit = half(jobs.length);
    const [only, ...others] = jobs;
    return only === undefined || others.length > 0
      ? { next: "bisect" }
      : { next: "put_off", uid: only };
  }

  #pause(error: unknown): AfterFailure {
    if (this.#failures === 0) this.#log.warn({ err: error }, "scheduling pauses: PostgreSQL fails");
    this.#failures += 1;
    return { next: "pause", ms: backoffMs(this.#failures, this.#random) };
  }
}

function half(jobs: number): number {
  return Math.max(1, Math.ceil(jobs / 2));
}
