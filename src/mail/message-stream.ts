import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as base64 from "nodemailer/lib/base64";
import MimeNode from "nodemailer/lib/mime-node";
import * as quotedPrintable from "nodemailer/lib/qp";

export interface Watch {
  /**
   * Throws when the message may not be sent, which closes the connection. Asked before the first byte, and again
   * before the end, with which the server takes the mail, once the connection has taken everything else.
   */
  mayContinue: () => void;
  /** The connection has taken the message to its end. */
  onEnd: () => void;
}

/** nodemailer's method that makes a stream of a node's content. */
const STREAM = "_getStream";

if (!(STREAM in MimeNode.prototype))
  throw new Error("nodemailer reads contents in another way: they are not read in slices");

/**
 * Makes `watch` hear when the message's bytes are read. A message that is one short text is composed at once:
 * nodemailer's streams for it take as long as all the rest of sending a mail.
 */
export function watchReading(message: MimeNode, { mayContinue, onEnd }: Watch): void {
  const create = message.createReadStream.bind(message);
  message.createReadStream = () => {
    const text = composed(message);
    if (text !== undefined) return sliced(text, mayContinue).once("end", onEnd);
    for (const node of [message, ...message.childNodes]) readInSlices(node);
    return inParts(create(), mayContinue).once("end", onEnd);
  };
}

/** Undefined unless the message is one short text. Leaves out what we do not use of nodemailer: transforms and DKIM. */
function composed(message: MimeNode): string | undefined {
  // A node with several parts has no content of its own; the content of an attachment is bytes.
  if (typeof message.content !== "string" || message.content.length > SLICE) return undefined;
  const body = encoded(message.content, message.getTransferEncoding());
  const text = `${message.buildHeaders()}\r\n\r\n${body}`;
  // A message ends with a line end (RFC 5321, 4.1.1.4).
  if (text.endsWith("\n")) return text;
  return text + (text.endsWith("\r") ? "\n" : "\r\n");
}

function encoded(content: string, transferEncoding: string | false): string {
  if (transferEncoding === "base64") return base64.wrap(base64.encode(content));
  if (transferEncoding === "quoted-printable")
    return quotedPrintable.wrap(quotedPrintable.encode(content));
  return content;
}

/**
 * Bytes that are handed on at a time. nodemailer's stream before the socket takes any amount: with one large piece,
 * `watch` would be asked about the end while a slow server has read nothing yet. Also, it makes a buffer for each
 * bare line feed, of which an attachment may have millions.
 */
const SLICE = 64 * 1024;
/** For the same reason, a chunk is not read before the previous one has been taken. */
const READ_NOTHING_AHEAD = 0;

/**
 * nodemailer gives a node's content to its encoder in one piece: five mebibytes of text keep everybody else waiting
 * for a quarter of a second.
 */
function readInSlices(node: MimeNode): void {
  const { content } = node;
  if (typeof content !== "string" && !Buffer.isBuffer(content)) return;
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  Object.assign(node, { [STREAM]: () => Readable.from(slices(bytes)) });
  // nodemailer counts the letters of a text to choose its encoding, twice if it is not told.
  const encoding = node.getTransferEncoding();
  if (encoding) node.setHeader("Content-Transfer-Encoding", encoding);
}

async function* slices(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += SLICE) {
    if (at > 0) await nextTurn();
    yield bytes.subarray(at, at + SLICE);
  }
}

function sliced(text: string, mayContinue: () => void): Readable {
  const bytes = Buffer.from(text);
  let at = 0;
  return new Readable({
    highWaterMark: READ_NOTHING_AHEAD,
    read() {
      if (at === 0 || at >= bytes.length) mayContinue();
      const slice = bytes.subarray(at, at + SLICE);
      at += SLICE;
      this.push(slice.length === 0 ? null : slice);
    },
  });
}

function inParts(source: Readable, mayContinue: () => void): Readable {
  const chunks = source[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
  let begun = false;
  let rest: Buffer | undefined;

  async function next(): Promise<Buffer | null> {
    if (!begun) mayContinue();
    begun = true;
    // Lets other work run between the slices of a chunk.
    if (rest !== undefined) await nextTurn();
    rest ??= (await chunks.next()).value;
    if (rest === undefined) {
      mayContinue();
      return null;
    }
    const slice = rest.subarray(0, SLICE);
    rest = rest.length > SLICE ? rest.subarray(SLICE) : undefined;
    return slice;
  }

  return new Readable({
    highWaterMark: READ_NOTHING_AHEAD,
    read() {
      next().then(
        (chunk) => this.push(chunk),
        (error: unknown) => this.destroy(error as Error),
      );
    },
    destroy(error, callback) {
      source.destroy();
      callback(error);
    },
  });
}
