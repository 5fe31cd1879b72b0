import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerParser, type Verdict } from "../../../src/delivery/answer-parser.ts";

interface Read {
  verdict: Verdict;
  status: number;
  retryAfter: string | null;
  keepAlive: number | null;
  /** Set when the answer has ended. */
  reusable: boolean;
}

/** What is known after these pieces. Like a connection, it stops at the first fault. */
function read(pieces: readonly Buffer[]): Read {
  const answer = new AnswerParser();
  let verdict: Verdict = "more";
  for (const piece of pieces) {
    verdict = answer.feed(piece);
    if (verdict !== "more" && verdict !== "ended") break;
  }
  const { status, retryAfter, keepAlive } = answer;
  return {
    verdict,
    status,
    retryAfter,
    keepAlive,
    reusable: verdict === "ended" && answer.reusable,
  };
}

function splitAt(bytes: Buffer, ...places: number[]): Buffer[] {
  const from = [0, ...places];
  return from.map((at, n) => bytes.subarray(at, from[n + 1]));
}

const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");
const OK = "HTTP/1.1 200 OK\r\n";
const NONE = "Content-Length: 0\r\n\r\n";
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;
const FINAL = `HTTP/1.1 204 No Content\r\n\r\n`;
const LONG = "x".repeat(16 * 1024);

/** The answer has ended, and the connection can be used again. */
const good = (change: Partial<Read> = {}): Partial<Read> => ({
  verdict: "ended",
  status: 200,
  retryAfter: null,
  keepAlive: null,
  reusable: true,
  ...change,
});
/** The answer has ended, and the connection cannot be used again. */
const last = (status = 200): Partial<Read> => ({ verdict: "ended", status, reusable: false });
const more = (status = 0): Partial<Read> => ({ verdict: "more", status, reusable: false });
const malformed = (status = 0): Partial<Read> => ({ verdict: "malformed", status });
const tooLarge = (status = 0): Partial<Read> => ({ verdict: "too large", status });

const ROWS: readonly (readonly [is: string, text: string, read: Partial<Read>])[] = [
  // Heads
  ["no body by its length", `${OK}${NONE}`, good()],
  ["no reason", `HTTP/1.1 200 \r\n${NONE}`, good()],
  ["no reason, nor a space before it", `HTTP/1.1 200\r\n${NONE}`, good()],
  ["a reason in latin1", `HTTP/1.1 200 \xdcber\tall\r\n${NONE}`, good()],
  ["the largest status", `HTTP/1.1 999 What\r\n${NONE}`, good({ status: 999 })],
  ["names in any case", `${OK}cOnTeNt-LeNgTh: 0\r\n\r\n`, good()],
  ["no space before a value", `${OK}Content-Length:0\r\n\r\n`, good()],
  ["spaces and tabs around a value", `${OK}Content-Length: \t 0\t \r\n\r\n`, good()],
  ["a value of nothing", `${OK}X:\r\n${NONE}`, good()],
  ["every character of a token", `${OK}!#$%&'*+-.^_\`|~09azAZ: x\r\n${NONE}`, good()],
  ["a value in latin1", `${OK}X: \x80\xff\r\n${NONE}`, good()],
  [
    "names as long as those that count",
    `${OK}X-Connects: close\r\nX-Retries-2: 1\r\n${NONE}`,
    good(),
  ],
  [
    "a head as long as it may be",
    `${OK}X: ${LONG.slice(OK.length + 3 + 2 + NONE.length)}\r\n${NONE}`,
    good(),
  ],
  [
    "a head too long by one",
    `${OK}X: ${LONG.slice(OK.length + 3 + 2 + NONE.length - 1)}\r\n${NONE}`,
    tooLarge(),
  ],
  ["a head without an end", `${OK}X: ${LONG}`, tooLarge()],
  ["lines without an end", `${OK}${"a:b\r\n".repeat(4_000)}`, tooLarge()],
  ["a status line without an end", `HTTP/1.1 200 ${LONG}`, tooLarge()],
  ["nothing", "", more()],
  ["half a version", "HTTP/", more()],
  ["half a status", "HTTP/1.1 20", more()],
  ["half a head", `${OK}Content-`, more()],
  ["a head without its last line end", `${OK}Content-Length: 0\r\n\r`, more()],
  ["another protocol, without a line end", "SSH-2", malformed()],
  ["another protocol, and without an end", `2${LONG}${LONG}`, malformed()],
  ["an alert of TLS", "\x15\x03\x01\x00\x02\x02\x46", malformed()],
  ["a status line in lower case", `http/1.1 200 OK\r\n${NONE}`, malformed()],
  ["HTTP/2", `HTTP/2 200\r\n${NONE}`, malformed()],
  ["HTTP/1.2", `HTTP/1.2 200 OK\r\n${NONE}`, malformed()],
  ["HTTP/0.9", "<html>", malformed()],
  ["an empty line first", `\r\n${OK}${NONE}`, malformed()],
  ["two spaces before the status", `HTTP/1.1  200 OK\r\n${NONE}`, malformed()],
  ["a tab before the status", `HTTP/1.1\t200 OK\r\n${NONE}`, malformed()],
  ["a status of two digits", `HTTP/1.1 20\r\n${NONE}`, malformed()],
  ["a status of four digits", `HTTP/1.1 2000\r\n${NONE}`, malformed()],
  ["a status of letters", `HTTP/1.1 2OO OK\r\n${NONE}`, malformed()],
  ["a status below 100", `HTTP/1.1 099 OK\r\n${NONE}`, malformed()],
  ["a control character in the reason", `HTTP/1.1 200 O\x07K\r\n${NONE}`, malformed()],
  ["a line that goes on with a space", `${OK}X: a\r\n b\r\n${NONE}`, malformed()],
  ["a line that goes on with a tab", `${OK}X: a\r\n\tb\r\n${NONE}`, malformed()],
  ["a first line that begins with a space", `${OK} X: a\r\n${NONE}`, malformed()],
  ["no colon", `${OK}X\r\n${NONE}`, malformed()],
  ["no name", `${OK}: a\r\n${NONE}`, malformed()],
  ["a space before the colon", `${OK}Content-Length : 0\r\n\r\n`, malformed()],
  ["a space in a name", `${OK}X Y: a\r\n${NONE}`, malformed()],
  ["a name in latin1", `${OK}\xdc: a\r\n${NONE}`, malformed()],
  ["line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", malformed()],
  ["a line feed alone behind a field", `${OK}X: a\n${NONE}`, malformed()],
  ["a line feed alone at the head's end", `${OK}Content-Length: 0\r\n\n`, malformed()],
  ["a carriage return in a value", `${OK}X: a\rContent-Length: 5\r\n${NONE}`, malformed()],
  ["two carriage returns at a line's end", `${OK}X: a\r\r\n${NONE}`, malformed()],
  ["NUL in a value", `${OK}X: \0\r\n${NONE}`, malformed()],
  ["NUL in a name", `${OK}X\0: a\r\n${NONE}`, malformed()],
  ["DEL in a value", `${OK}X: \x7f\r\n${NONE}`, malformed()],
  // Lengths
  ["a body", `${OK}Content-Length: 5\r\n\r\nhello`, good()],
  ["a body of line ends", `${OK}Content-Length: 6\r\n\r\n\r\n\r\n\r\n`, good()],
  ["less than its length", `${OK}Content-Length: 5\r\n\r\nhell`, more(200)],
  ["more than its length", `${OK}Content-Length: 5\r\n\r\nhello!`, last()],
  ["another answer behind it", `${OK}${NONE}${OK}${NONE}`, last()],
  ["the same length twice", `${OK}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`, good()],
  ["zeros before a length", `${OK}Content-Length: 002\r\n\r\nok`, good()],
  ["the largest length", `${OK}Content-Length: 999999999999999\r\n\r\nok`, more(200)],
  ["two lengths", `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nok`, malformed()],
  ["a list of lengths", `${OK}Content-Length: 2, 2\r\n\r\nok`, malformed()],
  ["no length", `${OK}Content-Length:\r\n\r\nok`, malformed()],
  ["a negative length", `${OK}Content-Length: -1\r\n\r\n`, malformed()],
  ["a length with a sign", `${OK}Content-Length: +2\r\n\r\nok`, malformed()],
  ["a length in hexadecimal", `${OK}Content-Length: 0x2\r\n\r\nok`, malformed()],
  ["a length with a fraction", `${OK}Content-Length: 2.0\r\n\r\nok`, malformed()],
  ["a length with another space", `${OK}Content-Length: 2\xa0\r\n\r\nok`, malformed()],
  ["a length beyond counting", `${OK}Content-Length: 1000000000000000\r\n\r\n`, malformed()],
  [
    "a length and chunks",
    `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    malformed(),
  ],
  [
    "chunks and a length",
    `${OK}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n`,
    malformed(),
  ],
  [
    "a length of nothing and chunks",
    `${OK}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    malformed(),
  ],
  // Chunks
  ["no chunk", `${CHUNKED}0\r\n\r\n`, good()],
  ["chunks", `${CHUNKED}5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n`, good()],
  [
    "a chunk's size in hexadecimal",
    `${CHUNKED}1a\r\n${"x".repeat(26)}\r\nA\r\n0123456789\r\n0\r\n\r\n`,
    good(),
  ],
  ["zeros before a size", `${CHUNKED}0002\r\nok\r\n000\r\n\r\n`, good()],
  ["a chunk of line ends", `${CHUNKED}4\r\n\r\n\r\n\r\n0\r\n\r\n`, good()],
  ["extensions", `${CHUNKED}2;a=b;c="d e"\r\nok\r\n0;x\r\n\r\n`, good()],
  ["trailers", `${CHUNKED}2\r\nok\r\n0\r\nX: a\r\nContent-Length: 9\r\n\r\n`, good()],
  [
    "chunks behind another coding",
    `${OK}Transfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n`,
    good(),
  ],
  [
    "codings on two lines",
    `${OK}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    good(),
  ],
  ["a chunk without an end", `${CHUNKED}5\r\nhello`, more(200)],
  ["chunks without an end", `${CHUNKED}5\r\nhello\r\n`, more(200)],
  ["trailers without an end", `${CHUNKED}0\r\nX: a\r\n`, more(200)],
  ["bytes behind the last chunk", `${CHUNKED}0\r\n\r\nx`, last()],
  ["no size", `${CHUNKED}\r\nok\r\n0\r\n\r\n`, malformed(200)],
  ["a size that is no number", `${CHUNKED}xyz\r\n`, malformed(200)],
  ...Array.from("/:@G`g", (character): (typeof ROWS)[number] => [
    `a size of ${character}, beside those that are digits`,
    `${CHUNKED}${character}\r\n`,
    malformed(200),
  ]),
  ["a size with a sign", `${CHUNKED}-1\r\n`, malformed(200)],
  ["a size with a prefix", `${CHUNKED}0x2\r\nok\r\n`, malformed(200)],
  ["a space behind a size", `${CHUNKED}2 \r\nok\r\n`, malformed(200)],
  ["a space before a size", `${CHUNKED} 2\r\nok\r\n`, malformed(200)],
  ["a size beyond counting", `${CHUNKED}10000000000000\r\n`, malformed(200)],
  ["a line feed alone behind a size", `${CHUNKED}2\nok\r\n`, malformed(200)],
  ["a chunk longer than its size", `${CHUNKED}2\r\nokay\r\n0\r\n\r\n`, malformed(200)],
  ["a line feed alone behind a chunk", `${CHUNKED}2\r\nok\n0\r\n\r\n`, malformed(200)],
  ["a control character in an extension", `${CHUNKED}2;\x01\r\nok\r\n`, malformed(200)],
  [
    "an extension as long as it may be",
    `${CHUNKED}2;${LONG.slice(-1_020)}\r\nok\r\n0\r\n\r\n`,
    good(),
  ],
  ["an extension too long by one", `${CHUNKED}2;${LONG.slice(-1_021)}\r\n`, malformed(200)],
  ["an extension without an end", `${CHUNKED}2;${"x".repeat(2_000)}`, malformed(200)],
  ["a trailer that is no field", `${CHUNKED}0\r\nno field\r\n\r\n`, malformed(200)],
  ["too many trailers", `${CHUNKED}0\r\n${"a:b\r\n".repeat(4_000)}`, tooLarge(200)],
  ["chunked twice", `${OK}Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`, good()],
  [
    "chunked on two lines",
    `${CHUNKED.slice(0, -2)}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    good(),
  ],
  // Until the connection closes
  ["neither length nor chunks", `${OK}\r\nhello`, more(200)],
  ["another coding", `${OK}Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n`, more(200)],
  [
    "another coding behind chunks",
    `${OK}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`,
    more(200),
  ],
  ["a coding of a like name", `${OK}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`, more(200)],
  ["a coding of no name", `${OK}Transfer-Encoding:\r\n\r\n0\r\n\r\n`, more(200)],
  [
    "chunks in HTTP/1.0",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    more(200),
  ],
  // No body
  ["204", FINAL, good({ status: 204 })],
  [
    "304 with the length of what it does not send",
    "HTTP/1.1 304 -\r\nContent-Length: 5\r\n\r\n",
    last(304),
  ],
  ["204 with a body", "HTTP/1.1 204 -\r\nContent-Length: 2\r\n\r\nok", last(204)],
  ["204 with chunks", "HTTP/1.1 204 -\r\nTransfer-Encoding: chunked\r\n\r\n", last(204)],
  ["204 with a length of nothing", `HTTP/1.1 204 -\r\n${NONE}`, good({ status: 204 })],
  // The connection afterwards
  ["close", `${OK}Connection: close\r\n${NONE}`, last()],
  ["close, in a list", `${OK}Connection: x, Close ,y\r\n${NONE}`, last()],
  ["close, on another line", `${OK}Connection: keep-alive\r\nConnection: close\r\n${NONE}`, last()],
  ["keep-alive", `${OK}Connection: keep-alive\r\n${NONE}`, good()],
  ["an option of a like name", `${OK}Connection: closed\r\n${NONE}`, good()],
  ["HTTP/1.0", `HTTP/1.0 200 OK\r\n${NONE}`, last()],
  ["HTTP/1.0 that is kept", `HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n${NONE}`, good()],
  ["for how long", `${OK}Keep-Alive: timeout=5\r\n${NONE}`, good({ keepAlive: 5 })],
  [
    "for how long, among others",
    `${OK}Keep-Alive: max=9, Timeout=0\r\n${NONE}`,
    good({ keepAlive: 0 }),
  ],
  [
    "for how long, and on another line for how many",
    `${OK}Keep-Alive: timeout=5\r\nKeep-Alive: max=9\r\n${NONE}`,
    good({ keepAlive: 5 }),
  ],
  ["for how long, in no number", `${OK}Keep-Alive: timeout=soon, xtimeout=5\r\n${NONE}`, good()],
  // Retry-After
  [
    "when to call again",
    `HTTP/1.1 503 No\r\nRetry-After: 7\r\n${NONE}`,
    good({ status: 503, retryAfter: "7" }),
  ],
  [
    "when to call again, twice",
    `${OK}Retry-After: 7\r\nRetry-After: 9\r\n${NONE}`,
    good({ retryAfter: "7" }),
  ],
  // Informational ones
  ["100 first", `HTTP/1.1 100 Continue\r\n\r\n${FINAL}`, good({ status: 204 })],
  [
    "103 first, whose fields are its own",
    `HTTP/1.1 103 Hints\r\nConnection: close\r\nContent-Length: 9\r\nRetry-After: 7\r\nKeep-Alive: timeout=3\r\n\r\n${OK}${NONE}`,
    good(),
  ],
  [
    "103 first, in chunks, which the final one is not",
    `HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n${OK}${NONE}`,
    good(),
  ],
  [
    "103 first, in chunks, which the final one is as well",
    `HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNKED}0\r\n\r\n`,
    good(),
  ],
  [
    "103 first, of a connection that the final one does not keep",
    `HTTP/1.1 103 Hints\r\nConnection: keep-alive\r\n\r\nHTTP/1.0 200 OK\r\n${NONE}`,
    last(),
  ],
  [
    "as many as there may be",
    `${"HTTP/1.1 102 -\r\n\r\n".repeat(100)}${FINAL}`,
    good({ status: 204 }),
  ],
  ["one too many", `${"HTTP/1.1 102 -\r\n\r\n".repeat(101)}${FINAL}`, tooLarge()],
  [
    "each as long as it may be",
    `${`HTTP/1.1 102 -\r\nX: ${LONG.slice(100)}\r\n\r\n`.repeat(3)}${FINAL}`,
    good({ status: 204 }),
  ],
  ["only informational ones", "HTTP/1.1 102 -\r\n\r\n", more()],
  ["garbage behind an informational one", "HTTP/1.1 102 -\r\n\r\nSSH", malformed()],
  ["another protocol", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", malformed()],
];

describe("an answer, whole, byte by byte, and cut anywhere", () => {
  test.each(ROWS)("%s", (_is, text, expected) => {
    const bytes = bytesOf(text);
    const whole = read([bytes]);
    expect(whole).toMatchObject(expected);
    expect(read(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))).toEqual(whole);
    for (let at = 0; at < Math.min(bytes.length, 400); at += 1)
      expect(read(splitAt(bytes, at)), `cut at ${at}`).toEqual(whole);
  });
});

/** Answers from parts of real ones, so that many are almost right. */
const anyAnswer = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...ROWS.map(([, text]) => text.slice(0, 300))) },
      fc.constantFrom(OK, FINAL, CHUNKED, NONE, "HTTP/1.1 100\r\n\r\n", "Connection: close\r\n"),
      fc.constantFrom("\r\n", "\r", "\n", " ", "5", "a", ";", ":", "\0", "0\r\n\r\n"),
      fc.string({ unit: "binary-ascii", maxLength: 8 }),
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((parts) => bytesOf(parts.join("")));

test("wherever it is cut, it is the same answer", () => {
  const places = fc.array(fc.nat(2_000), { maxLength: 8 });
  fc.assert(
    fc.property(anyAnswer, places, (bytes, cuts) => {
      const at = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b);
      expect(read(splitAt(bytes, ...at))).toEqual(read([bytes]));
    }),
    { numRuns: 3_000 },
  );
});

test("what comes behind the head is counted, framing included", () => {
  const answer = new AnswerParser();
  answer.feed(bytesOf(CHUNKED.slice(0, -2)));
  expect(answer.received).toBe(0);
  answer.feed(bytesOf("\r\n2\r\n"));
  expect(answer.received).toBe(3);
  answer.feed(bytesOf("ok\r\n"));
  expect(answer.received).toBe(7);
});

test("pieces of a line do not add up to more work than a line", () => {
  const answer = new AnswerParser();
  answer.feed(bytesOf(`${OK}X: `));
  const before = process.cpuUsage();
  let verdict: Verdict = "more";
  for (let n = 0; verdict === "more" && n < LONG.length; n += 1)
    verdict = answer.feed(Buffer.of(0x78));
  expect(verdict).toBe("too large");
  // Processor time in milliseconds; usually about 50.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});
