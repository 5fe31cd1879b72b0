import { digits, fieldColon, hexDigit, isValue, listOf, trimmed } from "./field-syntax.ts";

/** Bytes of an answer's head, or of its trailers. */
const MOST_HEAD = 16 * 1024;
/** Informational answers (RFC 9110, 15.2) before the final one. More are of no use, and each costs work. */
const MOST_INFORMATIONAL = 100;
/** Bytes of the line before a chunk, extensions included. */
const MOST_CHUNK_LINE = 1_024;
/** Bytes of the line end behind a chunk. */
const LINE_END = 2;
/**
 * Most digits of a length, decimal (`content-length`) and hexadecimal (chunks): a longer one would not be an exact
 * integer.
 */
const MOST_LENGTH_DIGITS = 15;
const MOST_CHUNK_DIGITS = 13;

const BEGINNING = "HTTP/1.";

const [CR, SPACE, ZERO, ONE, SEMICOLON] = [13, 32, 48, 49, 59];

/** What the next line is. */
type Line = "status" | "field" | "size" | "chunk end" | "trailer";
/** Between lines: body bytes that are only counted, everything until the connection closes, or nothing more. */
type State = Line | "counted" | "rest" | "ended";

export type Verdict = "more" | "ended" | "malformed" | "too large";

/**
 * Parses the final answer to a POST, and the informational ones before it (RFC 9112), from pieces that may be cut
 * anywhere. The body is only counted, to find its end. Strict: what two implementations may read differently is
 * malformed.
 */
export class AnswerParser {
  /** Of the final answer; 0 until its head is complete. */
  status = 0;
  retryAfter: string | null = null;
  /** Seconds that the receiver keeps the connection without a call, if it says so. */
  keepAlive: number | null = null;
  /** Bytes after the final head, framing included. */
  received = 0;
  /** Valid once the answer has ended: the receiver keeps the connection, and sent nothing after the answer. */
  reusable = false;

  #state: State = "status";
  /** The beginning of a line whose end has not come. Never longer than a line may be. */
  #held: Buffer | undefined;
  /** Bytes still allowed in this line, or in the head that it belongs to. */
  #room = MOST_HEAD;
  /** Body bytes (of this chunk) still to be counted. */
  #left = 0;
  #chunked = false;
  #informational = 0;

  // What the head that is being read says.
  #code = 0;
  #minor = ONE;
  #length = -1;
  /** There is a Transfer-Encoding; `#lastCoding` is its last member. */
  #encoded = false;
  #lastCoding = "";
  #keeps = false;
  #closes = false;

  /** `more`: nothing is wrong so far. After a fault, feed nothing more; `status` stays as it is. */
  feed(piece: Buffer): Verdict {
    if (this.status !== 0) this.received += piece.length;
    let at = 0;
    let bytes = piece;
    if (this.#held !== undefined) {
      bytes = Buffer.concat([this.#held, piece]);
      this.#held = undefined;
    }
    let text: string | undefined;
    for (;;) {
      const state = this.#state;
      if (state === "rest") return "more";
      if (state === "ended") {
        if (at < bytes.length) this.reusable = false;
        return "ended";
      }
      if (state === "counted") {
        const counted = Math.min(this.#left, bytes.length - at);
        at += counted;
        this.#left -= counted;
        if (this.#left > 0) return "more";
        this.#expect(this.#chunked ? "chunk end" : "ended", LINE_END);
        continue;
      }

      text ??= bytes.toString("latin1");
      const end = text.indexOf("\n", at);
      // Checked before the line's length: there is no point in waiting for the end of a line that is not HTTP.
      if (state === "status" && !begins(text, at)) return "malformed";
      this.#room -= (end === -1 ? text.length : end + 1) - at;
      if (this.#room < 0)
        return state === "size" || state === "chunk end" ? "malformed" : "too large";
      if (end === -1) {
        this.#room += text.length - at;
        if (at < bytes.length) this.#held = Buffer.from(bytes.subarray(at));
        return "more";
      }
      if (end === at || text.charCodeAt(end - 1) !== CR) return "malformed";
      const verdict = this.#line(state, text, at, end - 1);
      if (verdict !== "more") return verdict;
      at = end + 1;
      // The head has ended with this line.
      if (this.status !== 0 && this.received === 0) this.received = bytes.length - at;
    }
  }

  #expect(state: State, room = 0): void {
    this.#state = state;
    this.#room = room;
  }

  #line(line: Line, text: string, at: number, end: number): Verdict {
    switch (line) {
      case "status":
        return this.#statusLine(text, at, end);
      case "field":
        return at === end ? this.#headEnd() : this.#field(text, at, end);
      case "size":
        return this.#chunkSize(text, at, end);
      case "chunk end":
        this.#expect("size", MOST_CHUNK_LINE);
        return at === end ? "more" : "malformed";
      case "trailer":
        if (at === end) this.#expect("ended");
        else if (fieldColon(text, at, end) === -1) return "malformed";
    }
    return "more";
  }

  /** `HTTP/1.1 200 OK`. Some servers leave out the reason and the space before it. */
  #statusLine(text: string, at: number, end: number): Verdict {
    this.#minor = text.charCodeAt(at + 7);
    this.#code = digits(text, at + 9, at + 12);
    if (
      end < at + 12 ||
      (this.#minor !== ZERO && this.#minor !== ONE) ||
      text.charCodeAt(at + 8) !== SPACE ||
      this.#code < 100 ||
      (end > at + 12 && text.charCodeAt(at + 12) !== SPACE) ||
      !isValue(text, at + 12, end)
    )
      return "malformed";
    this.#state = "field";
    return "more";
  }

  #field(text: string, at: number, end: number): Verdict {
    const colon = fieldColon(text, at, end);
    if (colon === -1) return "malformed";
    // The length of the name tells most other fields apart without a copy: only their form is checked.
    switch (colon - at) {
      case "connection".length: // as long as "keep-alive"
      case "retry-after".length:
      case "content-length".length:
      case "transfer-encoding".length:
        return this.#read(text.slice(at, colon).toLowerCase(), trimmed(text, colon + 1, end));
      default:
        return "more";
    }
  }

  #read(name: string, value: string): Verdict {
    switch (name) {
      case "connection":
        for (const option of listOf(value)) {
          if (option === "close") this.#closes = true;
          else if (option === "keep-alive") this.#keeps = true;
        }
        break;
      case "keep-alive":
        this.keepAlive = keepAliveSeconds(value) ?? this.keepAlive;
        break;
      case "retry-after":
        this.retryAfter ??= value;
        break;
      case "content-length": {
        const length = value.length > MOST_LENGTH_DIGITS ? -1 : digits(value, 0, value.length);
        if (length === -1 || (this.#length !== -1 && this.#length !== length)) return "malformed";
        this.#length = length;
        break;
      }
      case "transfer-encoding":
        this.#encoded = true;
        // The last one counts. Some say chunked twice, and send it once.
        this.#lastCoding = listOf(value).at(-1) ?? this.#lastCoding;
    }
    return "more";
  }

  /** What follows the head (RFC 9112, 6.3). */
  #headEnd(): Verdict {
    if ((this.#encoded && this.#length !== -1) || this.#code === 101) return "malformed";
    if (this.#code < 200) {
      this.#informational += 1;
      if (this.#informational > MOST_INFORMATIONAL) return "too large";
      this.#forget();
      this.#expect("status", MOST_HEAD);
      return "more";
    }
    this.status = this.#code;
    this.reusable = !this.#closes && (this.#minor === ONE || this.#keeps);
    if (this.#code === 204 || this.#code === 304) {
      // A receiver that announces a body here may also send it: it would be taken for the next answer.
      if (this.#encoded || this.#length > 0) this.reusable = false;
      this.#expect("ended");
    } else if (this.#encoded) {
      this.#chunked = this.#lastCoding === "chunked" && this.#minor === ONE;
      if (this.#chunked) this.#expect("size", MOST_CHUNK_LINE);
      // In HTTP/1.0 chunked has no known meaning (RFC 9112, 6.1).
      else this.#expect("rest");
    } else if (this.#length === -1) this.#expect("rest");
    else if (this.#length === 0) this.#expect("ended");
    else this.#count(this.#length);
    return "more";
  }

  /** Fields of an informational answer say nothing about the final one. */
  #forget(): void {
    this.retryAfter = null;
    this.keepAlive = null;
    this.#length = -1;
    this.#encoded = false;
    this.#lastCoding = "";
    this.#keeps = false;
    this.#closes = false;
  }

  #count(bytes: number): void {
    this.#left = bytes;
    this.#expect("counted");
  }

  /** Hexadecimal digits, and perhaps extensions, which are ignored (RFC 9112, 7.1.1). */
  #chunkSize(text: string, at: number, end: number): Verdict {
    let size = 0;
    let next = at;
    for (; next < end; next += 1) {
      const digit = hexDigit(text.charCodeAt(next));
      if (digit === -1) break;
      size = size * 16 + digit;
    }
    if (next === at || next - at > MOST_CHUNK_DIGITS) return "malformed";
    if (next < end && (text.charCodeAt(next) !== SEMICOLON || !isValue(text, next, end)))
      return "malformed";
    if (size === 0) this.#expect("trailer", MOST_HEAD);
    else this.#count(size);
    return "more";
  }
}

/** Whether an answer may begin like this; perhaps only a part of `BEGINNING` has come. */
function begins(text: string, at: number): boolean {
  return text.length - at >= BEGINNING.length
    ? text.startsWith(BEGINNING, at)
    : BEGINNING.startsWith(text.slice(at));
}

/** `timeout=5, max=100`, in any order. */
function keepAliveSeconds(value: string): number | null {
  for (const parameter of listOf(value)) {
    if (!parameter.startsWith("timeout=")) continue;
    const seconds = digits(parameter, "timeout=".length, parameter.length);
    if (seconds !== -1) return seconds;
  }
  return null;
}
