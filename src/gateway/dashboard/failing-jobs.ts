import type { LastRun } from "../../domain/ports/dashboard.ts";
import type { InventoryItem } from "./job-inventory.ts";

/**
 * Jobs that need somebody, as the overview counts and the list shows them: the newest attempt failed and
 * nobody has paused the job. One that a 410 halted is one of them: nobody knows yet. A one-time job is one
 * until it succeeds when it is run again, or is deleted. `lastFailures` are the last runs that failed.
 */
export function failingJobs(
  items: readonly InventoryItem[],
  lastFailures: ReadonlyMap<string, LastRun>,
): InventoryItem[] {
  return items.filter(({ job }) => !job.spec.suspend && lastFailures.has(job.uid));
}
