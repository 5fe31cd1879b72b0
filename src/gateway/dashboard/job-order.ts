import type { LastRun } from "../../domain/ports/dashboard.ts";
import type { ListedJob } from "../../domain/listed-job.ts";
import type { InventoryItem } from "./job-inventory.ts";
import type { JobsPageQuery } from "./schemas.ts";

/** The items, which come oldest first, in this order. `lastRuns`: for the one that goes by them. */
type Order = (
  items: readonly InventoryItem[],
  lastRuns: ReadonlyMap<string, LastRun> | undefined,
) => readonly InventoryItem[];

export function createJobOrders(): Record<NonNullable<JobsPageQuery["sort"]>, Order> {
  const collator = new Intl.Collator("en");
  /** Where a job stood when it was last put in order by name: all but the new ones are in order already. */
  const places = new WeakMap<ListedJob, number>();

  function byName(items: readonly InventoryItem[]): InventoryItem[] {
    const placed: (InventoryItem | undefined)[] = [];
    const fresh: InventoryItem[] = [];
    for (const item of items) {
      const place = places.get(item.job);
      if (place === undefined) fresh.push(item);
      else placed[place] = item;
    }
    // Comparing as people do takes a microsecond: of what is in order already, each with its neighbour.
    const sorted = [...placed.filter((item) => item !== undefined), ...fresh].sort((a, b) =>
      collator.compare(a.job.spec.name, b.job.spec.name),
    );
    for (const [index, { job }] of sorted.entries()) places.set(job, index);
    return sorted;
  }

  return {
    created: (items) => items.toReversed(),
    name: byName,
    next_run: (items) =>
      items.toSorted((a, b) => ascending(a.nextRunAt ?? Infinity, b.nextRunAt ?? Infinity)),
    last_run: (items, lastRuns) =>
      items
        .map((item) => ({ item, at: lastRuns?.get(item.job.uid)?.executedAt ?? 0 }))
        .sort((a, b) => b.at - a.at)
        .map(({ item }) => item),
  };
}

/** Infinity minus Infinity is no number: those without a time stay as they are. */
function ascending(a: number, b: number): number {
  return a - b || 0;
}
