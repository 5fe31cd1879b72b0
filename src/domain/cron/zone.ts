import { quoted } from "../findings.ts";
import { DAY, MINUTE, SECOND, type Instant } from "../instant.ts";

/**
 * A stretch of time in which a zone's offset does not change. Stretches may also end where nothing
 * happens: the tables are computed in pieces.
 */
export interface Segment {
  start: Instant;
  /** Exclusive. */
  end: Instant;
  /** Wall clock minus UTC, in milliseconds. */
  offset: number;
  /**
   * Where the wall clock had got to before `start`, in wall-clock milliseconds since 1970. Below
   * start + offset: a gap was jumped over. Above it: the clock was set back and shows times again.
   */
  reached: number;
}

/** An IANA time zone. One object per zone, shared by all schedules in it. */
export interface Zone {
  /** The segment that contains the instant. Throws RangeError outside the range of Date. */
  at(instant: Instant): Segment;
}

export type ZoneResult = { ok: true; zone: Zone } | { ok: false; message: string };

/** The longest IANA name has 32 characters. */
export const MAX_ZONE_LENGTH = 64;
const NAME = /^[a-z][a-z0-9_+-]*(?:\/[a-z0-9_+-]+){0,2}$/i;

/**
 * Intl also knows names that ICU made up before there was a standard: three letters (its IST is
 * India, its AST is Alaska) and SystemV/. Of the three-letter names only these are IANA's.
 */
const THREE_LETTERS = new Set("cet eet est gmt hst met mst prc roc rok uct utc wet".split(" "));

/** Bounded: holds zones that Intl knows, under each letter case's lower one; some 600 at most. */
const zones = new Map<string, Zone>();

/**
 * Finds a zone of the IANA database by its name, in any letter case (IANA guarantees that names differ
 * in more than case; the job keeps the author's spelling). Offsets, abbreviations that only ICU knows
 * and POSIX strings are refused, with a message that says what to write instead.
 */
export function findZone(name: string): ZoneResult {
  const key = name.length <= MAX_ZONE_LENGTH ? name.toLowerCase() : "";
  const known = zones.get(key);
  if (known) return { ok: true, zone: known };
  const message = refuseName(name);
  if (message !== null) return { ok: false, message };
  const format = offsetFormat(name);
  if (!format) return { ok: false, message: unknownName(name) };
  const zone = createZone(format);
  zones.set(key, zone);
  return { ok: true, zone };
}

function refuseName(name: string): string | null {
  if (name === "") return "must not be empty: use an IANA name such as Europe/Paris, or UTC";
  // GMT+0 and GMT-0 are names of the database, as Etc/GMT+5 is; other offsets are none.
  if (/^(?:UTC|GMT)?[+\-\u2212]?\d/i.test(name) && !/^GMT[+-]?0$/i.test(name))
    return `${quoted(name)} is an offset, which knows no daylight saving time: use an IANA name such as Europe/Paris, or UTC`;
  if (name.length > MAX_ZONE_LENGTH || !NAME.test(name) || /^SystemV\//i.test(name))
    return unknownName(name);
  if (name.length === 3 && !THREE_LETTERS.has(name.toLowerCase()))
    return `${quoted(name)} is an abbreviation that several zones share: use an IANA name such as Europe/Paris, or UTC`;
  return null;
}

function unknownName(name: string): string {
  return `${quoted(name)} is not a time zone of the IANA database: use a name such as Europe/Paris, or UTC`;
}

/** Undefined when Intl does not know the zone. */
export function offsetFormat(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Length of the pieces in which a zone's table is computed, the first time somebody asks. */
const CHUNK = 400 * DAY;

/**
 * Asking Intl for an offset costs 2 µs, so a table is sampled. No zone has two changes less than 6 days
 * apart since 1970 (Brazil's north-east in October 2000, and Gaza by its rules for 2040: an hour less than 7).
 */
const SAMPLE = 3 * DAY;

/** The wall clock's high-water mark is certain again this long after any setting back (a day at most). */
const LOOK_BACK = 3 * DAY;

function createZone(format: Intl.DateTimeFormat): Zone {
  const chunks = new Map<number, readonly Segment[]>();
  return {
    at(instant) {
      const index = Math.floor(instant / CHUNK);
      let chunk = chunks.get(index);
      if (!chunk) {
        chunk = segmentsBetween(format, index * CHUNK, (index + 1) * CHUNK);
        chunks.set(index, chunk);
      }
      for (const segment of chunk) if (instant < segment.end) return segment;
      throw new Error(`no segment holds ${instant}`);
    },
  };
}

/**
 * The segments of [start, end), both whole seconds. Exported because no zone of the database changes
 * at a boundary of ours before the year 2400, and a rule that is never met must be tested all the same.
 */
export function segmentsBetween(
  format: Intl.DateTimeFormat,
  start: Instant,
  end: Instant,
): Segment[] {
  const segments: Segment[] = [];
  let from = start - LOOK_BACK;
  let offset = offsetAt(format, from);
  let reached = from + offset;
  const close = (until: Instant): void => {
    const begin = Math.max(from, start);
    // Cut at the chunk's start, the wall clock has got at least to where the cut is.
    const high = begin > from ? Math.max(reached, begin + offset) : reached;
    if (until > start) segments.push({ start: begin, end: until, offset, reached: high });
    reached = Math.max(reached, until + offset);
    from = until;
  };
  for (let sampled = from; sampled < end;) {
    const next = Math.min(sampled + SAMPLE, end);
    const offsetThere = offsetAt(format, next);
    while (offset !== offsetThere) {
      const change = changeBetween(format, sampled, next, offset);
      if (change === end) break;
      close(change);
      offset = offsetAt(format, change);
      sampled = change;
    }
    sampled = next;
  }
  close(end);
  return segments;
}

/** The first second in (from, to] whose offset is no longer `offset`; `to` has another one. */
function changeBetween(
  format: Intl.DateTimeFormat,
  from: Instant,
  to: Instant,
  offset: number,
): Instant {
  let same = from;
  let other = to;
  while (other - same > SECOND) {
    const middle = same + Math.floor((other - same) / (2 * SECOND)) * SECOND;
    if (offsetAt(format, middle) === offset) same = middle;
    else other = middle;
  }
  return other;
}

const OFFSET = /GMT(?:([+-])(\d{1,2}):(\d{2})(?::(\d{2}))?)?$/;

/** Offset in milliseconds; throws RangeError for an instant that no Date can hold. */
function offsetAt(format: Intl.DateTimeFormat, instant: Instant): number {
  const text = format.format(instant);
  const match = OFFSET.exec(text);
  if (!match) throw new Error(`Intl wrote an offset that cannot be read: ${text}`);
  const [, sign, hours = "0", minutes = "0", seconds = "0"] = match;
  const size = (Number(hours) * 60 + Number(minutes)) * MINUTE + Number(seconds) * SECOND;
  return sign === "-" ? -size : size;
}
