import type { Instant } from "../../domain/instant.ts";
import type { LastRun } from "../../domain/ports/dashboard.ts";
import type { InventoryItem } from "./job-inventory.ts";

export interface FailingJob {
  item: InventoryItem;
  /** A one-time job whose time passed without a run. */
  missed: boolean;
  /** When the failed attempt began, or the time that was missed. */
  at: Instant;
}

/**
 * Jobs that need somebody's attention, as the overview counts and the list shows them: the newest attempt failed, or
 * a one-time job missed its time, and nobody has paused the job. A job that a 410 halted is one of them, for nobody may
 * know yet. A one-time job is one until it is run again and succeeds, or is deleted. `lastRuns`: at least those of
 * jobs whose newest attempt failed and of jobs that missed their time, by uid.
 */
export function failingJobs(
  items: readonly InventoryItem[],
  lastRuns: ReadonlyMap<string, LastRun>,
): FailingJob[] {
  return items.flatMap<FailingJob>((item) => {
    const { job, missedAt } = item;
    const last = lastRuns.get(job.uid);
    if (job.spec.suspend) return [];
    // A run by hand that came before the missed time does not stand in for it.
    if (missedAt !== null && (last === undefined || last.executedAt < missedAt))
      return [{ item, missed: true, at: missedAt }];
    return last?.status === "failed" ? [{ item, missed: false, at: last.executedAt }] : [];
  });
}
