/** Times as people read them. Everything from the server is ISO 8601 in UTC. */

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The browser's time zone. For an unknown one Chrome gives a name that it does not accept itself, and uses UTC. */
export const MY_ZONE = zone === "Etc/Unknown" ? "UTC" : zone;

const absolute = new Map<string, Intl.DateTimeFormat>();

/** `Sat, 21 Nov 2026, 12:00:00` in a zone, by default the browser's. */
export function formatTime(iso: string, timeZone = MY_ZONE, seconds = true): string {
  const key = `${timeZone} ${seconds}`;
  let format = absolute.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      timeZone,
      weekday: "short",
      day: "numeric",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      ...(seconds ? { second: "2-digit" } : {}),
    });
    absolute.set(key, format);
  }
  return format.format(new Date(iso));
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });
const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
] as const;

/** A day in UTC, with the name of the zone: in the reader's zone it may be another day. */
export const utcDay = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  timeZone: "UTC",
  timeZoneName: "short",
});

/** `in 5 minutes`, `3 hours ago`. */
export function formatRelative(iso: string, now: number): string {
  const seconds = (Date.parse(iso) - now) / 1_000;
  if (Math.abs(seconds) < 5) return "now";
  for (const [unit, size] of UNITS)
    // At least two of a unit, except seconds: "in 43 hours" says more than "in 1 day".
    if (Math.abs(seconds) >= (unit === "second" ? 1 : 2) * size)
      return relative.format(Math.trunc(seconds / size), unit);
  return "now";
}

/** A zone's wall-clock time minus UTC at a moment, in minutes. */
export function utcOffset(iso: string, timeZone: string): number {
  const text =
    new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" })
      .formatToParts(new Date(iso))
      .find(({ type }) => type === "timeZoneName")?.value ?? "GMT";
  const match = /([+-])(\d{2}):(\d{2})/.exec(text);
  if (!match) return 0;
  const minutes = Number(match[2]) * 60 + Number(match[3]);
  return match[1] === "-" ? -minutes : minutes;
}

/** `UTC+02:00` */
export function formatOffset(minutes: number): string {
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Zones that all browsers know, but some list only by their former names, such as `Asia/Calcutta`. */
const RENAMED = [
  "America/Argentina/Buenos_Aires",
  "America/Indiana/Indianapolis",
  "America/Nuuk",
  "Asia/Ho_Chi_Minh",
  "Asia/Kathmandu",
  "Asia/Kolkata",
  "Asia/Yangon",
  "Atlantic/Faroe",
  "Europe/Kyiv",
];

/** UTC, then all other zones, also by their new names, and `present`, even if the browser does not list it. */
export function timeZones(present: string): string[] {
  const zones = new Set([...Intl.supportedValuesOf("timeZone"), ...RENAMED, present]);
  zones.delete("UTC");
  return ["UTC", ...[...zones].sort()];
}
