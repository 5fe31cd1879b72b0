import { createHash } from "node:crypto";

/**
 * Reads and writes the API server's JSON, and payloads, without changing a number or a key. An int64 beyond 2^53 is
 * valid in both, and JSON.parse alone would round it; it may also confuse keys that are written with escapes.
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

/** There is an integer of sixteen digits, outside of uids and hashes: a shorter one cannot lose anything. */
const SUSPICIOUS = /(?:^|[:,[])\s*-?\d{16}/;

/**
 * There is a key with an escape. V8 may read one as the key that an earlier object, which began alike, had in its
 * place: once {"\\":1} has been parsed anywhere in the process, {"\"":1} gets that key as well (nodejs/node#63785).
 * Keys by which managedFields names the items of lists do not count: every resource has some, and nobody reads
 * them. So a payload that has only such keys is left to JSON.parse, too.
 */
const ESCAPED_KEY = /\\.(?<!"k:\{\\"\w+\\":\\"[^"\\]*\\")[^"\\]*"\s*:/;

/** A string or a number of a JSON text. Strings are matched so that digits in them are not taken for numbers. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** How many pieces of a text are joined at a time. */
const PIECES = 10_000;

/**
 * JSON.parse; numbers that do not survive a round trip become raw JSON values. Without a reviver, which recurses as
 * deep as the text nests: one deep resource would keep all others from being read.
 */
export function parseExactJson(text: string): unknown {
  if (!SUSPICIOUS.test(text) && !ESCAPED_KEY.test(text)) return JSON.parse(text);
  // Nobody can write a text that contains its own hash.
  const mark = createHash("sha256").update(text).digest("base64url");
  const keys: string[] = [];
  const root: { value: unknown } = { value: parseMarked(text, mark, keys) };
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
 * JSON.parse of the text with marks: a number that does not survive becomes a string of `mark` and the number, a
 * key with an escape becomes `mark` and its place in `keys`. There may be hundreds of thousands: the marked text is put
 * together in blocks, because `replaceAll` would keep every match until the end. None is left out, however many there
 * are: a list has the jobs of several accounts, and one of them must not change what is read of the others.
 */
function parseMarked(text: string, mark: string, keys: string[]): unknown {
  const places = new Map<string, number>();
  const blocks: string[] = [];
  let pieces: string[] = [];
  let end = 0;
  for (const { 0: token, index } of text.matchAll(STRING_OR_NUMBER)) {
    const after = index + token.length;
    let marked = token;
    if (token.startsWith('"')) {
      if (!token.includes("\\") || !isKey(text, after)) continue;
      const place = places.get(token) ?? keys.push(JSON.parse(token) as string) - 1;
      places.set(token, place);
      marked = String(place);
    } else if (!/^-?\d{16,}$/.test(token) || survivesRoundTrip(token)) continue;
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

/** The container; if it has marked keys, a copy with the real keys. */
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

/**
 * Whether a JSON number keeps its mathematical value when it is read as a double and written again:
 * 1.0 and 1e2 do, 9007199254740993 and 1e400 do not.
 */
export function survivesRoundTrip(written: string): boolean {
  if (/^-?[0-9]{1,15}$/.test(written)) return true;
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  return normalised(written) === normalised(String(value));
}

/** Sign, digits without outer zeros, and the power of ten of the last digit: one form per value. */
function normalised(number: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(number) ?? [];
  const all = (whole + fraction).replace(/^0+/, "");
  // By hand: a regular expression would begin anew at each zero of a long run that is not at the end.
  let end = all.length;
  while (all[end - 1] === "0") end -= 1;
  const digits = all.slice(0, end);
  if (digits === "") return "0";
  const power = Number(exponent) - fraction.length + (all.length - digits.length);
  return `${sign}${digits}e${power}`;
}

/** Whether containers nest more than `levels` deep, counting the value itself as the first. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (!isContainer(value)) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/**
 * One text per value: keys in code unit order, no space. The API server keeps objects as maps, so the
 * order in which an author wrote the keys is gone; without an order of our own two reads of one
 * revision could differ. Does not recurse: a value may nest deeper than the stack allows.
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
  /** Index of the next item to be written. */
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
