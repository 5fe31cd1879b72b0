import type { LastRun } from "../../domain/ports/dashboard.ts";
import type { InventoryItem } from "./job-inventory.ts";

/**
 * Jobs that need somebody's attention, as the overview counts and the list shows them: the newest attempt failed
 * and nobody has paused the job. A job that a 410 halted is one of them, for nobody may know yet. A one-time job
 * is one until it is run again and succeeds, or is deleted. `lastFailures`: newest attempts that failed, by uid.
 */
export function failingJobs(
  items: readonly InventoryItem[],
  lastFailures: ReadonlyMap<string, LastRun>,
): InventoryItem[] {
  return items.filter(({ job }) => !job.spec.suspend && lastFailures.has(job.uid));
}
