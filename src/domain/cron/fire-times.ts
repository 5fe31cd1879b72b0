import { DAY, MINUTE, type Instant } from "../instant.ts";
import type { CronFields } from "./fields.ts";
import { countMatches, firstMatch, lastMatch, type WallMinute } from "./wall-clock.ts";
import type { Segment, Zone } from "./zone.ts";

/**
 * The longest wait between two fire times of any accepted expression: from one 29 February to the
 * next across a year like 2100 that has none. Two days more cover whatever zones do meanwhile.
 */
const HORIZON = (8 * 365 + 2 + 2) * DAY;

/**
 * Fire times of one expression in one zone, by Vixie's rule for clock changes, without its limit of
 * three hours. Jobs that follow elapsed time fire at every moment whose wall clock matches: in an
 * overlap twice, in a gap never. The others fire once for each matching wall time: the first time the
 * clock shows it, or right after the gap that jumps over it, where several become one fire time.
 * In other words, they follow a wall clock that is never set back.
 */
export interface CronTimes {
  fields: CronFields;
  zone: Zone;
}

/** The first fire time strictly after `after`; null when there is none within eight years. */
export function nextFireTime({ fields, zone }: CronTimes, after: Instant): Instant | null {
  const limit = after + HORIZON;
  let segment = zone.at(after);
  while (segment.start <= limit) {
    if (segment.start > after && firesAfterGap(fields, segment)) return segment.start;
    const from = Math.max(firstWall(fields, segment), wallAfter(segment, after));
    const wall = firstMatch(fields, from, endWall(segment));
    if (wall !== null) return wall * MINUTE - segment.offset;
    segment = zone.at(segment.end);
  }
  return null;
}

/** The last fire time in (after, atOrBefore]; looks back eight years at most. */
export function latestFireTime(
  { fields, zone }: CronTimes,
  atOrBefore: Instant,
  after: Instant,
): Instant | null {
  const lower = Math.max(after, atOrBefore - HORIZON);
  if (atOrBefore <= lower) return null;
  let segment = zone.at(atOrBefore);
  for (;;) {
    const from = Math.max(firstWall(fields, segment), wallAfter(segment, lower));
    const before = Math.min(endWall(segment), wallAfter(segment, atOrBefore));
    const wall = lastMatch(fields, from, before);
    if (wall !== null) return wall * MINUTE - segment.offset;
    if (segment.start <= lower) return null;
    if (firesAfterGap(fields, segment)) return segment.start;
    segment = zone.at(segment.start - 1);
  }
}

/** How many fire times lie in (after, upTo]. Costs a step per month, not per fire time. */
export function countFireTimes({ fields, zone }: CronTimes, after: Instant, upTo: Instant): number {
  if (upTo <= after) return 0;
  let total = 0;
  let segment = zone.at(after);
  while (segment.start <= upTo) {
    const from = Math.max(firstWall(fields, segment), wallAfter(segment, after));
    const before = Math.min(endWall(segment), wallAfter(segment, upTo));
    total += countMatches(fields, from, before);
    if (segment.start > after && firesAfterGap(fields, segment) && !firesAtStart(fields, segment))
      total += 1;
    segment = zone.at(segment.end);
  }
  return total;
}

/** The first wall minute of the segment that may fire: later than all that were shown before, or not. */
function firstWall(fields: CronFields, segment: Segment): WallMinute {
  const begin = segment.start + segment.offset;
  const from = fields.followsElapsedTime ? begin : Math.max(begin, segment.reached);
  return Math.ceil(from / MINUTE);
}

/** Exclusive end of the segment's wall minutes. */
function endWall(segment: Segment): WallMinute {
  return Math.ceil((segment.end + segment.offset) / MINUTE);
}

/** The first wall minute that begins strictly after the instant. */
function wallAfter(segment: Segment, instant: Instant): WallMinute {
  return Math.floor((instant + segment.offset) / MINUTE) + 1;
}

/** A wall time that the segment's gap jumped over matches: it fires at the segment's start. */
function firesAfterGap(fields: CronFields, segment: Segment): boolean {
  const begin = segment.start + segment.offset;
  return (
    segment.reached < begin &&
    !fields.followsElapsedTime &&
    firstMatch(fields, Math.ceil(segment.reached / MINUTE), Math.ceil(begin / MINUTE)) !== null
  );
}

/** The wall time at the segment's very start matches: it is the same fire time as that of the gap, counted already. */
function firesAtStart(fields: CronFields, segment: Segment): boolean {
  const begin = (segment.start + segment.offset) / MINUTE;
  return Number.isInteger(begin) && firstMatch(fields, begin, begin + 1) !== null;
}
