import type { LastRun } from "../../domain/ports/dashboard.ts";
import type { ListedJob } from "../../domain/listed-job.ts";
import type { InventoryItem } from "./job-inventory.ts";
import type { JobsPageQuery } from "./schemas.ts";

/** Sorts the items, which come oldest first. `lastRuns` is needed by `last_run` only. */
type Order = (
  items: readonly InventoryItem[],
  lastRuns: ReadonlyMap<string, LastRun> | undefined,
) => readonly InventoryItem[];

export function createJobOrders(): Record<NonNullable<JobsPageQuery["sort"]>, Order> {
  const collator = new Intl.Collator("en");
  /** Each job's place when the jobs were last sorted by name: all but new ones begin in that order. */
  const places = new WeakMap<ListedJob, number>();

  function byName(items: readonly InventoryItem[]): InventoryItem[] {
    const placed: (InventoryItem | undefined)[] = [];
    const fresh: InventoryItem[] = [];
    for (const item of items) {
      const place = places.get(item.job);
      if (place === undefined) fresh.push(item);
      else placed[place] = item;
    }
    // A collator's comparison takes a microsecond. Of what is in order already, only neighbours are compared.
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

/** Infinity minus Infinity is NaN: two without a time are equal. */
function ascending(a: number, b: number): number {
  return a - b || 0;
}
