import { createHash } from "node:crypto";

/**
 * JSON of the API server and of payloads in and out of a process without changing a number or a key: an int64
 * beyond 2^53 is valid in a resource and in a payload, and JSON.parse alone would round it; and keys that are
 * written with escapes it may take for others.
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

/**
 * A key with an escape in it. V8 may take one for a key that an object which began alike had in its place: once
 * {"\\":1} has been parsed, for whomever, {"\"":1} has that key as well (nodejs/node#63785). Not those that
 * managedFields names the items of lists by: every resource has some, and nobody reads them. A payload that has
 * no others is left to JSON.parse, too.
 */
const ESCAPED_KEY = /\\.(?<!"k:\{\\"\w+\\":\\"[^"\\]*\\")[^"\\]*"\s*:/;

/** A string or a number of a JSON text: digits in a string are none of our business. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** How many pieces of a text are joined at a time. */
const PIECES = 10_000;

/**
 * Keys with escapes in one text that are kept apart. Each costs microseconds in which no other account's jobs run,
 * and a page of one account's can have more than a million: nobody means those, and they are left to JSON.parse.
 */
const MOST_ESCAPED_KEYS = 20_000;

/**
 * JSON.parse; numbers that do not survive a round trip become raw JSON values. Not by a reviver, which nests as
 * the text does: whoever may write one resource would end the reading of all others with its depth.
 */
export function parseExactJson(text: string): unknown {
  const suspicious = SUSPICIOUS.test(text);
  if (!suspicious && !ESCAPED_KEY.test(text)) return JSON.parse(text);
  // No text can be written that has its own hash in it.
  const mark = createHash("sha256").update(text).digest("base64url");
  const keys: string[] = [];
  const root: { value: unknown } = { value: parseMarked({ text, suspicious, mark, keys }) };
  const open: Record<string, unknown>[] = [root];
  for (let container = open.pop(); container !== undefined; container = open.pop())
    for (const key of Object.keys(container)) {
      const value = container[key];
      if (typeof value === "object" && value !== null) {
        const own = withOwnKeys(value as Record<string, unknown>, mark, keys);
        if (own !== value) container[key] = own;
        open.push(own);
      } else if (typeof value === "string" && value.startsWith(mark))
        container[key] = JSON.rawJSON(value.slice(mark.length));
    }
  return root.value;
}

/**
 * JSON.parse, with each number that does not survive as a string that begins with `mark`, and each key with an escape
 * as one that does and goes on with its place in `keys`. There may be millions: the marked text is put together by the
 * block, where `replaceAll` would keep all that it finds until the end.
 */
function parseMarked(options: {
  text: string;
  suspicious: boolean;
  mark: string;
  keys: string[];
}): unknown {
  const { text, suspicious, mark, keys } = options;
  const places = new Map<string, number>();
  let escaped = 0;
  const blocks: string[] = [];
  let pieces: string[] = [];
  let end = 0;
  for (const { 0: token, index } of text.matchAll(STRING_OR_NUMBER)) {
    const after = index + token.length;
    let marked = token;
    if (token.startsWith('"')) {
      if (!token.includes("\\") || !isKey(text, after)) continue;
      escaped += 1;
      if (escaped > MOST_ESCAPED_KEYS) {
        if (suspicious) continue;
        break;
      }
      const place = places.get(token) ?? keys.push(JSON.parse(token) as string) - 1;
      places.set(token, place);
      marked = String(place);
    } else if (!/^-?\d{16,}$/.test(token) || String(Number(token)) === token) continue;
    pieces.push(text.slice(end, index), `"${mark}${marked}"`);
    end = after;
    if (pieces.length < PIECES) continue;
    blocks.push(pieces.join(""));
    pieces = [];
  }
  return JSON.parse([...blocks, ...pieces, text.slice(end)].join(""));
}

const COLON = /\s*:/y;

/** Whether the string that ends at `end` is a key. */
function isKey(text: string, end: number): boolean {
  COLON.lastIndex = end;
  return COLON.test(text);
}

/** The container, or where it has marked keys, one like it that has the keys themselves. */
function withOwnKeys(
  container: Record<string, unknown>,
  mark: string,
  keys: readonly string[],
): Record<string, unknown> {
  if (keys.length === 0 || Array.isArray(container)) return container;
  const written = Object.keys(container);
  if (!written.some((key) => key.startsWith(mark))) return container;
  const own = (key: string) => keys[Number(key.slice(mark.length))] ?? key;
  return Object.fromEntries(
    written.map((key) => [key.startsWith(mark) ? own(key) : key, container[key]]),
  );
}

/** Whether containers are in each other more than so many levels deep, the value itself being the first. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (!isContainer(value)) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/**
 * One text per value: keys in code unit order, no space. The API server keeps objects as maps, so the
 * order in which an author wrote the keys is gone; without an order of our own two reads of one
 * revision could differ. It does not nest as the value does, which may be deeper than the stack.
 */
export function canonicalJson(value: unknown): string {
  if (!isContainer(value)) return scalar(value);
  const open = [contents(value)];
  let text = open[0]?.opening ?? "";
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    if (inner.at === inner.items.length) {
      text += inner.closing;
      open.pop();
      continue;
    }
    const { at } = inner;
    inner.at += 1;
    if (at > 0) text += ",";
    const key = inner.keys?.[at];
    if (key !== undefined) text += `${JSON.stringify(key)}:`;
    const item = inner.items[at];
    if (!isContainer(item)) {
      text += scalar(item);
      continue;
    }
    const next = contents(item);
    text += next.opening;
    open.push(next);
  }
  return text;
}

interface Contents {
  opening: string;
  closing: string;
  keys: readonly string[] | null;
  items: readonly unknown[];
  /** The next one to be written. */
  at: number;
}

function contents(container: Record<string, unknown> | unknown[]): Contents {
  if (Array.isArray(container))
    return { opening: "[", closing: "]", keys: null, items: container, at: 0 };
  const keys = Object.keys(container).sort();
  return { opening: "{", closing: "}", keys, items: keys.map((key) => container[key]), at: 0 };
}

function scalar(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}

function isContainer(value: unknown): value is Record<string, unknown> | unknown[] {
  return typeof value === "object" && value !== null && !JSON.isRawJSON(value);
}
