import { setImmediate as turn } from "node:timers/promises";
import { copiedText } from "../../domain/copied-text.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JobStatus } from "../../domain/job.ts";
import { jobStatus, nextRunAt, type StatusCursor } from "../../domain/job-status.ts";
import type { ListedJob } from "../../domain/listed-job.ts";
import type { DashboardStatistics } from "../../domain/ports/dashboard.ts";
import type { JobIndex } from "../../domain/ports/job-index.ts";
import { onceStateOf, timingOf, type Timing } from "../../domain/timing.ts";

export interface InventoryItem {
  job: ListedJob;
  status: JobStatus;
  nextRunAt: Instant | null;
  /** The time of a one-time job that missed it. */
  missedAt: Instant | null;
  /** Name, id and address in lower case, each on a line. */
  text: string;
}

/** Every job of an account with its status and next run, oldest first. */
export type JobInventory = (account: string, now: Instant) => Promise<readonly InventoryItem[]>;

interface Known extends InventoryItem {
  timing: Timing;
  cursor: StatusCursor | undefined;
  /** Status and next run stay the same until then, unless job or cursor change. */
  until: Instant;
}

/** After so many new jobs other work gets a turn: compiling a cron expression, once for each job, takes 50 µs. */
const NEW_AT_ONCE = 200;

/**
 * What was computed about a job is kept for as long as the index returns the same object. So a look at 10,000
 * jobs only computes those that changed or fired since the last look.
 */
export function createJobInventory(parts: {
  jobIndex: JobIndex;
  statistics: Pick<DashboardStatistics, "statusCursors">;
}): JobInventory {
  const known = new WeakMap<ListedJob, Known>();
  return async (account, now) => {
    const [jobs, cursors] = await Promise.all([
      parts.jobIndex.jobs(account),
      parts.statistics.statusCursors(account),
    ]);
    const items: InventoryItem[] = [];
    let fresh = 0;
    for (const job of jobs) {
      const cursor = cursors.get(job.uid);
      const before = known.get(job);
      if (before === undefined && (fresh += 1) % NEW_AT_ONCE === 0) await turn();
      if (before && now < before.until && sameCursor(before.cursor, cursor)) items.push(before);
      else {
        const item = itemOf(job, cursor, before, now);
        known.set(job, item);
        items.push(item);
      }
    }
    return items;
  };
}

function itemOf(
  job: ListedJob,
  cursor: StatusCursor | undefined,
  before: Known | undefined,
  now: Instant,
): Known {
  const timing = before?.timing ?? timingOf(job.spec);
  const next = nextRunAt(job, cursor, timing, now);
  const { schedule } = job.spec;
  const missed = schedule.kind === "once" && onceStateOf(job, cursor, timing) === "missed";
  return {
    job,
    status: jobStatus(job, cursor, timing),
    nextRunAt: next,
    missedAt: missed ? schedule.at : null,
    text: before?.text ?? [job.spec.name, job.id, job.address].join("\n").toLowerCase(),
    timing,
    // A copy: the cursors of an account come as one text, which would stay for as long as the job does.
    cursor: cursor && { ...cursor, scheduleHash: copiedText(cursor.scheduleHash) },
    until: next ?? Infinity,
  };
}

function sameCursor(a: StatusCursor | undefined, b: StatusCursor | undefined): boolean {
  return (
    a?.once === b?.once &&
    a?.haltedGeneration === b?.haltedGeneration &&
    a?.scheduleHash === b?.scheduleHash
  );
}

export function countByStatus(items: readonly InventoryItem[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of items) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
