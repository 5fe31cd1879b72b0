import { randomBytes } from "node:crypto";

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

/** A string or a number of a JSON text: digits in a string are none of our business. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Of a text that is put together, in a block. */
const PIECES = 10_000;

/**
 * JSON.parse; numbers that do not survive a round trip become raw JSON values. Not by a reviver, which nests as
 * the text does: whoever may write one resource would end the reading of all others with its depth.
 */
export function parseExactJson(text: string): unknown {
  if (!SUSPICIOUS.test(text)) return JSON.parse(text);
  // Nobody who wrote the text knows it.
  const mark = randomBytes(9).toString("base64url");
  const root: { value: unknown } = { value: parseMarked(text, mark) };
  const open: Record<string, unknown>[] = [root];
  for (let container = open.pop(); container !== undefined; container = open.pop())
    for (const key of Object.keys(container)) {
      const value = container[key];
      if (typeof value === "object" && value !== null) open.push(value as Record<string, unknown>);
      else if (typeof value === "string" && value.startsWith(mark))
        container[key] = JSON.rawJSON(value.slice(mark.length));
    }
  return root.value;
}

/**
 * JSON.parse, with each number that does not survive as a string that begins with `mark`. There may be millions: the
 * marked text is put together by the block, where `replaceAll` would keep all that it finds until the end.
 */
function parseMarked(text: string, mark: string): unknown {
  const blocks: string[] = [];
  let pieces: string[] = [];
  let end = 0;
  for (const { 0: token, index } of text.matchAll(STRING_OR_NUMBER)) {
    if (!/^-?\d{16,}$/.test(token) || String(Number(token)) === token) continue;
    pieces.push(text.slice(end, index), `"${mark}${token}"`);
    end = index + token.length;
    if (pieces.length < PIECES) continue;
    blocks.push(pieces.join(""));
    pieces = [];
  }
  return JSON.parse([...blocks, ...pieces, text.slice(end)].join(""));
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
