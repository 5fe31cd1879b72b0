import type { Cursor } from "../domain/cursor.ts";
import { DAY, type Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import type { Clock } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { JobStore } from "../domain/ports/job-store.ts";
import type { FinishedJob, RunHistory } from "../domain/ports/run-history.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import { revisionOf, sameRevision } from "../domain/revision.ts";
import { onceStateOf, timingOf } from "../domain/timing.ts";
import { OUR_JOB_ID } from "./job-id.ts";

export interface FinishedJobsOptions {
  jobs: Pick<JobStore, "get" | "deleteUnchanged">;
  history: Pick<RunHistory, "finished" | "finishedJob">;
  ledger: Pick<RunLedger, "cancel">;
  clock: Clock;
  /** Days that a one-time job is kept after it is over; 0: for ever. */
  days: number;
  /** Called with the number of jobs deleted since the last call; never 0. */
  onRemoved: (count: number) => void;
}

/** Uids that are read at a time. */
const PAGE = 1_000;
/** After so many jobs in a row for which a dependency was unavailable, the others are left to the next run. */
const MOST_IN_A_ROW = 10;
/**
 * After so many jobs of one account that could not be deleted, its others are left to the next run: its namespace
 * forbids it.
 */
const MOST_OF_AN_ACCOUNT = 10;

/**
 * Deletes the one-time jobs made through REST that have been over for longer than `days`, as DELETE /jobs/{id}
 * would: nothing else deletes them, and they would be listed for ever (docs/decisions/0014). One after the other;
 * each is read again right before it is deleted. Safe on several processes at once; after an interruption the next
 * run goes on. Rejects with the first error, but after the other jobs had their turn, unless a dependency was
 * unavailable.
 */
export function createFinishedJobs(options: FinishedJobsOptions): {
  run(signal: AbortSignal): Promise<void>;
} {
  const { jobs, history, ledger, clock, days } = options;

  async function remove({ account, jobId, cursor }: FinishedJob): Promise<boolean> {
    const job = await jobs.get(account, jobId);
    if (!job || job.uid !== cursor.jobUid || !isOver(job, cursor)) return false;
    if (!(await jobs.deleteUnchanged(job))) return false;
    await ledger.cancel([job], account);
    return true;
  }

  /** Resolves with the number of jobs deleted. */
  async function sweep(
    page: readonly string[],
    { before, trouble, signal }: { before: Instant; trouble: Trouble; signal: AbortSignal },
  ): Promise<number> {
    let count = 0;
    for (const jobUid of page) {
      if (signal.aborted || trouble.unavailableInARow === MOST_IN_A_ROW) break;
      let account: string | undefined;
      try {
        const found = await history.finishedJob({ before, jobUid });
        account = found?.account;
        const refused = trouble.refused.get(account ?? "") ?? 0;
        if (found && refused < MOST_OF_AN_ACCOUNT && (await remove(found))) count += 1;
        trouble.unavailableInARow = 0;
      } catch (error) {
        trouble.first ??= { error };
        if (error instanceof DependencyUnavailable) trouble.unavailableInARow += 1;
        else if (account !== undefined)
          trouble.refused.set(account, (trouble.refused.get(account) ?? 0) + 1);
      }
    }
    return count;
  }

  return {
    async run(signal) {
      if (days === 0) return;
      const before = clock.now() - days * DAY;
      const trouble: Trouble = { first: undefined, unavailableInARow: 0, refused: new Map() };
      let after: string | undefined;
      do {
        // Jobs that people applied have other names, and are theirs to delete.
        const page = await history.finished({ before, jobIds: OUR_JOB_ID, after, limit: PAGE });
        const count = await sweep(page, { before, trouble, signal });
        if (count > 0) options.onRemoved(count);
        after = page.length === PAGE ? page.at(-1) : undefined;
      } while (after !== undefined && !signal.aborted && trouble.unavailableInARow < MOST_IN_A_ROW);
      if (trouble.first) throw trouble.first.error;
    },
  };
}

interface Trouble {
  first: { error: unknown } | undefined;
  unavailableInARow: number;
  /** By account: jobs that could not be deleted. */
  refused: Map<string, number>;
}

/**
 * Whether the cursor that says that the job is over is about the job as it is now. It may not know yet of a new time,
 * another change, or a run that was asked for.
 */
function isOver(job: Job, cursor: Cursor): boolean {
  const { generation, runNow, spec } = job;
  return (
    sameRevision(cursor, { generation, revision: revisionOf(job) }) &&
    (runNow === null || runNow === cursor.lastRunNow) &&
    onceStateOf(job, cursor, timingOf(spec)) === cursor.once
  );
}
