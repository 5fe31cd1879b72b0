/**
 * SQL: `column` is `value`, written so that the one plan that fits is a lookup of each value in the column's
 * index. "=" could serve a merge as well, so that the planner also weighs reading the whole index in
 * order: which looks free for a table that was empty at the last vacuum, as the queue mostly is, and such
 * a plan compares every row with every value once the herd has come. (Sequential scans are switched off:
 * PoolOptions.plans.)
 */
export function byKey(column: string, value: string): string {
  return `${column} between ${value} and ${value}`;
}
