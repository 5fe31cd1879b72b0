/**
 * SQL for a timestamptz expression as a domain Instant: whole milliseconds since the epoch.
 * A float8, because the driver hands bigints over as text and Dates need no type parser this way.
 */
export function instantOf(expression: string): string {
  return `floor(extract(epoch from ${expression}) * 1000)::float8`;
}
