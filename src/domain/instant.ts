/** Milliseconds since the Unix epoch, UTC. The domain knows no other notion of a moment. */
export type Instant = number;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** RFC 3339 in UTC with milliseconds, as every timestamp of the REST API is written. */
export function isoUtc(instant: Instant): string {
  if (instant !== lastInstant) {
    lastText = new Date(instant).toISOString();
    lastInstant = instant;
  }
  return lastText;
}

/** For a moment that may not be there. */
export function isoUtcOrNull(instant: Instant | null): string | null {
  return instant === null ? null : isoUtc(instant);
}

/** Mostly the same moment is asked for again: many jobs share one fire time, and their runs end within milliseconds. */
let lastInstant = Number.NaN;
let lastText = "";
