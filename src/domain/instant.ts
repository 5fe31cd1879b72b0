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

/** The runs of a herd have one fire time, and end within milliseconds: mostly it is the moment asked for last. */
let lastInstant = Number.NaN;
let lastText = "";
