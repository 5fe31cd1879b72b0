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
/** Lines that are taken apart however short they are: PostalMime keeps some 2 KB for each that is not base64. */
const MOST_SHORT_LINES = 100_000;
/** Bytes that a line has on average where there are more: those of base64 have 78. */
const SHORT_LINE = 60;
/** Bytes of a head, where there is more than that to be taken apart. */
const MOST_HEAD = 64 * 1024;

/** Parses a received message. A message that is no MIME at all is shown as its own text. */
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
      // A mail in a mail is shown as what it is, an attachment. Many in each other took time with their square.
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
  // By its places: an iterator takes several times as long, and everybody waits for it.
  for (let at = 0; at < raw.length; at += 1) if (raw[at] === LF) lines += 1;
  return lines;
}

/** To the empty line, without which there is no end to it. */
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
