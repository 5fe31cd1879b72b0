/**
 * JSON of the API server in and out of a process without changing a number: an int64 beyond 2^53 is
 * valid in a resource and in a payload, and JSON.parse alone would round it.
 */

/** A number that a double cannot hold, kept as it was written. JSON.stringify writes it unchanged. */
interface RawJson {
  rawJSON: string;
}

declare global {
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/** An integer of sixteen digits: only then can one have lost something. Not so in a uid or a hash. */
const SUSPICIOUS = /(?:^|[:,[])\s*-?\d{16}/;

/** JSON.parse; numbers that do not survive a round trip become raw JSON values. */
export function parseExactJson(text: string): unknown {
  if (!SUSPICIOUS.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || !/^-?\d{16,}$/.test(source))
      return value;
    return String(value) === source ? value : JSON.rawJSON(source);
  });
}

/**
 * One text per value: keys in code unit order, no space. The API server keeps objects as maps, so the
 * order in which an author wrote the keys is gone; without an order of our own two reads of one
 * revision could differ.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null || JSON.isRawJSON(value))
    return JSON.stringify(value) ?? "null";
  const members = Object.keys(value)
    .sort()
    .map(
      (key) => `${JSON.stringify(key)}:${canonicalJson((value as Record<string, unknown>)[key])}`,
    );
  return `{${members.join(",")}}`;
}
