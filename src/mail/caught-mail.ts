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
    // A mail in a mail is shown as what it is, an attachment. Many in each other took time with their square.
    const mail = await PostalMime.parse(raw, { forceRfc822Attachments: true });
    return {
      ...common,
      from: addresses(mail.from === undefined ? [] : [mail.from]),
      to: addresses(mail.to ?? []),
      cc: addresses(mail.cc ?? []),
      replyTo: addresses(mail.replyTo ?? []),
      subject: mail.subject ?? "",
      messageId: mail.messageId ?? "",
      headers: mail.headers.map(({ key, value }) => ({ name: key, value })),
      text: mail.text ?? null,
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
