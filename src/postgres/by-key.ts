/**
 * SQL: `column` is `value`, written so that the only possible plan is to look up each value in the column's index.
 * With "=" the planner also considers to read the whole index in order. That looks free for a table that was empty
 * at the last vacuum, as the queue mostly is, but compares every row with every value once the queue is full.
 * (Sequential scans are switched off: PoolOptions.plans.)
 */
export function byKey(column: string, value: string): string {
  return `${column} between ${value} and ${value}`;
}
