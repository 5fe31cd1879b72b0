import type { Pool } from "./pool.ts";

export interface Batches {
  /** Most rows that one statement removes. */
  size?: number;
  /** Looked at between two statements. */
  signal?: AbortSignal;
}

/** Some 50 ms of work: far from the time limit of a statement, however slow the disk. */
const SIZE = 5_000;

/**
 * Calls `remove` until it removes nothing, and returns how many rows went. A single statement for many rows would
 * exceed the time limit, be rolled back, and have even more rows the next time.
 */
export async function inBatches(
  { size = SIZE, signal }: Batches,
  remove: (limit: number) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (;;) {
    if (signal?.aborted === true) break;
    const removed = await remove(size);
    if (removed === 0) break;
    total += removed;
  }
  return total;
}

/** How many rows of a page a statement has removed, and the key of the page's last row; null: the page was empty. */
export interface Page {
  count: number;
  last: string | null;
}

/**
 * For few rows among many that are kept. Calls `remove` for page after page, in the order of keys, with the key
 * after which the page begins, and returns how many rows went. A page has `size` rows, and at most `size` go; when
 * so many went, the page is looked at again, because there may be more.
 */
export async function inPages(
  { size = SIZE, signal }: Batches,
  first: string,
  remove: (after: string, size: number) => Promise<Page | undefined>,
): Promise<number> {
  let total = 0;
  let after: string | null = first;
  while (after !== null) {
    if (signal?.aborted === true) break;
    const page: Page = (await remove(after, size)) ?? { count: 0, last: null };
    total += page.count;
    if (page.count < size) after = page.last;
  }
  return total;
}

/**
 * Deletes the rows of a table (of one that has no partitions) for which `where` holds, in batches. `oldestFirst`
 * names an indexed column that `where` compares, so that a batch need not read the rest of the table.
 */
export async function deleteInBatches({
  pool,
  table,
  where,
  values = [],
  oldestFirst,
  ...batches
}: Batches & {
  pool: Pool;
  table: string;
  where: string;
  values?: readonly unknown[];
  oldestFirst?: string;
}): Promise<number> {
  const order = oldestFirst === undefined ? "" : `order by ${oldestFirst}`;
  // The condition stands there twice, so that a row that was renewed after it had been found stays.
  const text = `delete from ${table}
     where ctid = any(array(
       select ctid from ${table} where ${where} ${order} limit $${values.length + 1}
     )) and ${where}`;
  return inBatches(batches, async (limit) => {
    const { rowCount } = await pool.query(text, [...values, limit]);
    return rowCount ?? 0;
  });
}
