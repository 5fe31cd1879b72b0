import type { Cursor } from "../../domain/cursor.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Job, JobStatus } from "../../domain/job.ts";
import { jobStatus, nextRunAt } from "../../domain/job-status.ts";
import type { JobStore } from "../../domain/ports/job-store.ts";
import type { RunHistory } from "../../domain/ports/run-ledger.ts";
import { timingOf } from "../../domain/timing.ts";

const PAGE = 500;

export interface InventoryItem {
  job: Job;
  status: JobStatus;
  nextRunAt: Instant | null;
}

/** Every job of an account with its status and next run, oldest first. */
export async function jobInventory(
  parts: { jobs: Pick<JobStore, "list">; history: Pick<RunHistory, "cursors"> },
  account: string,
  now: Instant,
): Promise<InventoryItem[]> {
  const items: InventoryItem[] = [];
  let next: string | undefined;
  do {
    const page = await parts.jobs.list({
      account,
      limit: PAGE,
      ...(next === undefined ? {} : { continue: next }),
    });
    const cursors = await parts.history.cursors(page.jobs.map((job) => job.uid));
    for (const job of page.jobs) items.push(itemOf(job, cursors.get(job.uid), now));
    next = page.continue;
  } while (next !== undefined);
  return items;
}

function itemOf(job: Job, cursor: Cursor | undefined, now: Instant): InventoryItem {
  const timing = timingOf(job.spec);
  return {
    job,
    status: jobStatus(job, cursor, timing),
    nextRunAt: nextRunAt(job, cursor, timing, now),
  };
}

export function countByStatus(items: readonly InventoryItem[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of items) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
