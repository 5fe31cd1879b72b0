import PostalMime from "postal-mime";

/** A mail that the catcher keeps: as received, and as a mail program would show it. */
export interface CaughtMail {
  id: string;
  receivedAt: string;
  envelopeFrom: string;
  envelopeTo: readonly string[];
  from: string;
  to: string;
  cc: string;
  replyTo: string;
  subject: string;
  messageId: string;
  headers: readonly { name: string; value: string }[];
  text: string | null;
  html: string | null;
  attachments: readonly { filename: string; contentType: string; bytes: number }[];
  size: number;
  raw: Buffer;
}

const LF = 10;
/**
 * A mail with more lines than this is parsed only if they are long: PostalMime keeps some 2 KB for each that is not
 * base64.
 */
const MOST_SHORT_LINES = 100_000;
/** Least average bytes of a line in such a mail: lines of base64 have 78. */
const SHORT_LINE = 60;
/** Most bytes of the head of a mail that is not parsed as a whole. */
const MOST_HEAD = 64 * 1024;

/** Parses a received message. A message that is not MIME is shown as text. */
export async function parseCaughtMail(received: {
  id: string;
  at: Date;
  from: string;
  to: readonly string[];
  raw: Buffer;
}): Promise<CaughtMail> {
  const { id, at, from, to, raw } = received;
  const common = {
    id,
    receivedAt: at.toISOString(),
    envelopeFrom: from,
    envelopeTo: to,
    size: raw.length,
    raw,
  };
  try {
    const lines = linesOf(raw);
    const tooMany = lines > MOST_SHORT_LINES && raw.length / lines < SHORT_LINE;
    const mail = await PostalMime.parse(tooMany ? headOf(raw) : raw, {
      // A mail in a mail is shown as an attachment. Parsing many in each other would take quadratic time.
      forceRfc822Attachments: true,
    });
    return {
      ...common,
      from: addresses(mail.from === undefined ? [] : [mail.from]),
      to: addresses(mail.to ?? []),
      cc: addresses(mail.cc ?? []),
      replyTo: addresses(mail.replyTo ?? []),
      subject: mail.subject ?? "",
      messageId: mail.messageId ?? "",
      headers: mail.headers.map(({ key, value }) => ({ name: key, value })),
      text: tooMany ? `(${lines} lines: see the source)` : (mail.text ?? null),
      html: mail.html ?? null,
      attachments: mail.attachments.map((attachment) => ({
        filename: attachment.filename ?? "(no name)",
        contentType: attachment.mimeType,
        bytes:
          typeof attachment.content === "string"
            ? Buffer.byteLength(attachment.content)
            : attachment.content.byteLength,
      })),
    };
  } catch {
    return {
      ...common,
      from,
      to: to.join(", "),
      cc: "",
      replyTo: "",
      subject: "(not a MIME message)",
      messageId: "",
      headers: [],
      text: raw.toString("utf8"),
      html: null,
      attachments: [],
    };
  }
}

function linesOf(raw: Buffer): number {
  let lines = 0;
  // By index: an iterator takes several times as long, and blocks the process.
  for (let at = 0; at < raw.length; at += 1) if (raw[at] === LF) lines += 1;
  return lines;
}

/** Up to the empty line; at most `MOST_HEAD`, because there may be none. */
function headOf(raw: Buffer): Buffer {
  const head = raw.subarray(0, MOST_HEAD);
  const end = head.indexOf("\r\n\r\n");
  return end === -1 ? head : head.subarray(0, end);
}

interface Addressed {
  name: string;
  address?: string | undefined;
}

function addresses(list: readonly Addressed[]): string {
  return list
    .map(({ name, address }) =>
      name === "" || address === undefined ? (address ?? name) : `${name} <${address}>`,
    )
    .join(", ");
}
