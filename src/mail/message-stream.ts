import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as base64 from "nodemailer/lib/base64";
import type MimeNode from "nodemailer/lib/mime-node";
import * as quotedPrintable from "nodemailer/lib/qp";

export interface Watch {
  /**
   * Throws when it may not. Asked before the first byte, and before the end that makes it a mail once the
   * connection has taken what comes before: an error there closes the connection.
   */
  mayContinue: () => void;
  /** The connection has taken it to its end. */
  onEnd: () => void;
}

/**
 * Has a message watched as its bytes are read. A text without attachments is composed at once: nodemailer's
 * streams for it take as long as all the rest of a mail.
 */
export function watchReading(message: MimeNode, { mayContinue, onEnd }: Watch): void {
  const create = message.createReadStream.bind(message);
  message.createReadStream = () => {
    const text = composed(message);
    const stream = text === undefined ? inParts(create(), mayContinue) : sliced(text, mayContinue);
    return stream.once("end", onEnd);
  };
}

/** Undefined for what is not a text alone. Right for what we ask of nodemailer: no transforms, no DKIM. */
function composed(message: MimeNode): string | undefined {
  // A node of several parts has no content of its own, an attachment's is bytes.
  if (typeof message.content !== "string") return undefined;
  const body = encoded(message.content, message.getTransferEncoding());
  const text = `${message.buildHeaders()}\r\n\r\n${body}`;
  // What is sent ends with a line's end (RFC 5321, 4.1.1.4).
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
 * Bytes that are handed on at a time. nodemailer's stream before the socket takes whatever it is given: in
 * one piece, the end would be asked about while a slow server has read nothing yet. And it makes a buffer of each bare
 * line feed, of which an attachment may have millions.
 */
const SLICE = 64 * 1024;
/** Nor is a chunk read before the one before it is taken. */
const READ_NOTHING_AHEAD = 0;

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
    // Between the slices of a chunk it is everybody else's turn.
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
