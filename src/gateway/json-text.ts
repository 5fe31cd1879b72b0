import { survivesRoundTrip } from "../domain/exact-json.ts";
import { jsonProblem } from "./json-problem.ts";

/**
 * A strict scanner over JSON text (RFC 8259). JSON.parse accepts what we must refuse (a key given twice,
 * lone surrogates, NUL, any depth) and forgets what we must keep: where a value stood in the text, so
 * that a payload can be stored byte for byte, and how a number was written.
 */

export interface JsonMember {
  /** Offsets of the value in the text, end exclusive. */
  start: number;
  end: number;
  /** Scalars and containers in the value, itself included. */
  values: number;
  /** The first number whose value a JSON round trip through doubles would change, as written. */
  inexact: string | null;
}

export type JsonScan =
  | { ok: true; members: ReadonlyMap<string, JsonMember>; value: Record<string, unknown> }
  /** `tooMany`: it may be JSON, but has more values than the limit. */
  | { ok: false; problem: string; tooMany: boolean };

class Problem extends Error {}
class TooMany extends Problem {}

export interface JsonLimits {
  depth: number;
  /**
   * The most values in one member, and in all others together. The scan stops there: a body has room for
   * millions, and each costs microseconds in which nobody else is answered.
   */
  values?: { member: string; inMember: number; inOthers: number };
}

const WHITESPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** Up to the next quote, backslash or control character. */
const PLAIN = /[\u0020\u0021\u0023-\u005b\u005d-\uffff]*/y;
const LITERAL = /true|false|null/y;
const [QUOTE, BACKSLASH, SMALL_U, SPACE] = [0x22, 0x5c, 0x75, 0x20];
/** By character code, 1: may follow a backslash; `u` is looked at apart. */
const ESCAPED = codesOf('"\\/bfnrt');
const HEX_DIGIT = codesOf("0123456789abcdefABCDEF");
/** Characters that are looked at one by one: that takes about as long as a native search takes to begin. */
const NEAR = 32;

function codesOf(characters: string): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) =>
    characters.includes(String.fromCharCode(code)) ? 1 : 0,
  );
}

/**
 * Scans and parses one JSON object. The scan comes first, since only it bounds the nesting. It skips the
 * contents of strings: JSON.parse finds wrong escapes and control characters. Then a strict scan says where they are.
 */
export function scanJsonObject(text: string, limits: JsonLimits): JsonScan {
  try {
    return { ok: true, ...scanned(text, limits) };
  } catch (error) {
    if (error instanceof Problem)
      return { ok: false, problem: error.message, tooMany: error instanceof TooMany };
    throw error;
  }
}

function scanned(text: string, limits: JsonLimits) {
  try {
    const members = new Scanner({ text, ...limits, strict: false }).object();
    return { members, value: JSON.parse(text) as Record<string, unknown> };
  } catch (error) {
    // Throws a Problem that names the first place.
    if (!(error instanceof TooMany)) new Scanner({ text, ...limits, strict: true }).object();
    throw error;
  }
}

/** An open container; `keys` is null for an array. */
interface Open {
  keys: Set<string> | null;
}

class Scanner {
  private at = 0;
  private readonly text: string;
  private readonly depth: number;
  private readonly strict: boolean;
  private readonly most: JsonLimits["values"];
  /** Values so far, outside the member that has a limit of its own. */
  private others = 0;
  constructor(options: JsonLimits & { text: string; strict: boolean }) {
    this.text = options.text;
    this.depth = options.depth;
    this.strict = options.strict;
    this.most = options.values;
  }

  object(): Map<string, JsonMember> {
    const members = new Map<string, JsonMember>();
    this.skipSpace();
    if (this.at >= this.text.length)
      throw new Problem("the body is empty, and must be a JSON object");
    if (this.text[this.at] === "\ufeff")
      throw new Problem("the body begins with a byte order mark: send it without one");
    if (this.text[this.at] !== "{") throw new Problem("the body must be a JSON object");
    this.at += 1;
    this.skipSpace();
    if (this.text[this.at] === "}") this.at += 1;
    else {
      for (;;) {
        const name = this.key(members);
        members.set(name, this.value(name));
        if (!this.more("}")) break;
      }
    }
    this.skipSpace();
    if (this.at < this.text.length) throw this.unexpected();
    return members;
  }

  /** One member's value, iteratively: hostile nesting must not reach the call stack. */
  private value(name: string): JsonMember {
    const open: Open[] = [];
    const member: JsonMember = { start: this.at, end: this.at, values: 0, inexact: null };
    for (;;) {
      this.skipSpace();
      member.values += 1;
      if (this.most) this.count(this.most, name, member.values);
      const container = this.scalarOrOpen(member);
      if (container) {
        open.push(container);
        // The body itself is the first level.
        if (open.length + 1 > this.depth)
          throw new Problem(`nesting must be at most ${this.depth} levels deep`);
        this.skipSpace();
        if (this.text[this.at] !== (container.keys ? "}" : "]")) {
          if (container.keys) this.key(container.keys);
          continue;
        }
        this.at += 1;
        open.pop();
      }
      // A value has ended: close what ends with it, or go on to the next one.
      for (;;) {
        const around = open.at(-1);
        if (!around) {
          member.end = this.at;
          return member;
        }
        if (this.more(around.keys ? "}" : "]")) {
          if (around.keys) this.key(around.keys);
          break;
        }
        open.pop();
      }
    }
  }

  private count(most: NonNullable<JsonLimits["values"]>, name: string, values: number): void {
    if (name === most.member) {
      if (values > most.inMember)
        throw new TooMany(`${name} has more than ${most.inMember} values`);
    } else if ((this.others += 1) > most.inOthers)
      throw new TooMany(`the body has more than ${most.inOthers} values`);
  }

  private scalarOrOpen(member: JsonMember): Open | undefined {
    const first = this.text[this.at];
    if (first === "{" || first === "[") {
      this.at += 1;
      return { keys: first === "{" ? new Set() : null };
    }
    if (first === '"') this.string();
    else if (first === "t" || first === "f" || first === "n") this.take(LITERAL);
    else {
      const number = this.take(NUMBER);
      if (member.inexact === null && !survivesRoundTrip(number)) member.inexact = number;
    }
    return undefined;
  }

  /** True after a comma, with the next value or key ahead; false after the closing bracket. */
  private more(closing: "}" | "]"): boolean {
    this.skipSpace();
    const next = this.text[this.at];
    if (next !== "," && next !== closing) throw this.unexpected();
    this.at += 1;
    if (next === closing) return false;
    this.skipSpace();
    return true;
  }

  private key(seen: Set<string> | Map<string, unknown>): string {
    if (this.text[this.at] !== '"') throw this.unexpected();
    const key = JSON.parse(this.string()) as string;
    // Parsers disagree on which of two equal keys wins: one could be checked and the other acted on.
    if (seen.has(key)) throw new Problem(`the key ${JSON.stringify(key)} is given twice`);
    if (seen instanceof Set) seen.add(key);
    this.skipSpace();
    if (this.text[this.at] !== ":") throw this.unexpected();
    this.at += 1;
    this.skipSpace();
    return key;
  }

  /** Consumes a string and returns it as written, quotes included. */
  private string(): string {
    const start = this.at;
    this.at += 1;
    if (this.strict) this.checkedRest();
    else this.uncheckedRest();
    const written = this.text.slice(start, this.at);
    if (written.includes("\\u")) {
      const value = JSON.parse(written) as string;
      // PostgreSQL takes no NUL in text, and neither it nor UTF-8 takes half a surrogate pair.
      if (value.includes("\u0000")) throw new Problem(`NUL in a string at offset ${start}`);
      if (!value.isWellFormed()) throw new Problem(`lone surrogate in a string at offset ${start}`);
    }
    return written;
  }

  /**
   * Goes behind the quote that ends the string: the next one behind an even number of backslashes. Texts and
   * attachments are megabytes, so a native search is used, after a look at the characters that are near.
   */
  private uncheckedRest(): void {
    for (;;) {
      const near = Math.min(this.at + NEAR, this.text.length);
      while (this.at < near) {
        const code = this.text.charCodeAt(this.at);
        this.at += code === BACKSLASH ? 2 : 1;
        if (code === QUOTE) return;
      }
      const quote = this.text.indexOf('"', this.at);
      if (quote === -1) throw new SyntaxError("a string without an end");
      let behind = quote;
      while (behind > this.at && this.text.charCodeAt(behind - 1) === BACKSLASH) behind -= 1;
      this.at = quote + 1;
      if ((quote - behind) % 2 === 0) return;
    }
  }

  private checkedRest(): void {
    for (;;) {
      this.skipPlain();
      const stop = this.text.charCodeAt(this.at);
      if (stop === QUOTE) break;
      if (stop !== BACKSLASH) throw this.unexpected();
      this.escape();
    }
    this.at += 1;
  }

  /** Consumes an escape. A body has room for millions, and a regular expression is slow for each. */
  private escape(): void {
    const byNumber = this.text.charCodeAt(this.at + 1) === SMALL_U;
    const end = this.at + (byNumber ? 6 : 2);
    for (let at = this.at + (byNumber ? 2 : 1); at < end; at += 1)
      if ((byNumber ? HEX_DIGIT : ESCAPED)[this.text.charCodeAt(at)] !== 1) throw this.unexpected();
    this.at = end;
  }

  /** Goes to the next quote, backslash or control character. Where escapes follow one another, they are near. */
  private skipPlain(): void {
    const near = Math.min(this.at + NEAR, this.text.length);
    for (; this.at < near; this.at += 1) {
      const code = this.text.charCodeAt(this.at);
      if (code === QUOTE || code === BACKSLASH || code < SPACE) return;
    }
    PLAIN.lastIndex = this.at;
    PLAIN.test(this.text);
    this.at = PLAIN.lastIndex;
  }

  private take(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) throw this.unexpected();
    this.at = pattern.lastIndex;
    return found[0];
  }

  private skipSpace(): void {
    WHITESPACE.lastIndex = this.at;
    WHITESPACE.test(this.text);
    this.at = WHITESPACE.lastIndex;
  }

  private unexpected(): Problem {
    return new Problem(jsonProblem(this.text, this.at));
  }
}
