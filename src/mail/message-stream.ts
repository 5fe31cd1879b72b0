import { Readable } from "node:stream";
import * as base64 from "nodemailer/lib/base64";
import type MimeNode from "nodemailer/lib/mime-node";
import * as quotedPrintable from "nodemailer/lib/qp";

export interface Watch {
  /**
   * Throws when it may not; asked before the first byte and before the end that makes it a mail, as the
   * connection takes them: an error there closes the connection.
   */
  mayContinue: () => void;
  /** The connection has taken it to its end. */
  onEnd: () => void;
}

/**
 * The same message, whose bytes are watched as they are read. A text without attachments is composed at once,
 * as one chunk: nodemailer's streams for it take as long as all the rest of a mail.
 */
export function watched(message: MimeNode, { mayContinue, onEnd }: Watch): MimeNode {
  const create = message.createReadStream.bind(message);
  message.createReadStream = () => {
    const text = composed(message);
    const stream =
      text === undefined ? inParts(create(), mayContinue) : oneChunk(text, mayContinue);
    return stream.once("end", onEnd);
  };
  return message;
}

/** Undefined for what has several parts: their node has no content of its own. */
function composed(message: MimeNode): string | undefined {
  const { content } = message;
  if (typeof content !== "string") return undefined;
  const head = `${message.buildHeaders()}\r\n\r\n`;
  const body = encoded(content, message.getTransferEncoding());
  if (body === undefined) return undefined;
  // What is sent ends with a line's end (RFC 5321, 4.1.1.4).
  if (body === "" || body.endsWith("\n")) return head + body;
  return `${head}${body}${body.endsWith("\r") ? "\n" : "\r\n"}`;
}

function encoded(content: string, transferEncoding: string | false): string | undefined {
  switch (transferEncoding) {
    case false:
    case "7bit":
      return content;
    case "quoted-printable":
      return quotedPrintable.wrap(quotedPrintable.encode(content));
    case "base64":
      return base64.wrap(base64.encode(content));
    default:
      return undefined;
  }
}

/** Or the end would be asked about before the connection has taken what comes before it. */
const READ_NOTHING_AHEAD = 0;

function oneChunk(text: string, mayContinue: () => void): Readable {
  let read = false;
  return new Readable({
    highWaterMark: READ_NOTHING_AHEAD,
    read() {
      mayContinue();
      this.push(read ? null : text);
      read = true;
    },
  });
}

function inParts(source: Readable, mayContinue: () => void): Readable {
  return Readable.from(
    (async function* (): AsyncGenerator<Buffer> {
      mayContinue();
      for await (const chunk of source) yield chunk as Buffer;
      mayContinue();
    })(),
    { objectMode: false, highWaterMark: READ_NOTHING_AHEAD },
  );
}
