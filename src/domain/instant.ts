/** Milliseconds since the Unix epoch, UTC. The domain knows no other notion of a moment. */
export type Instant = number;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** RFC 3339 in UTC with milliseconds, as every timestamp of the REST API is written. */
export function isoUtc(instant: Instant): string {
  return new Date(instant).toISOString();
}
