import { isAscii } from "node:buffer";
import { callbackify } from "node:util";
import type { SmtpSettings } from "../domain/account.ts";
import type { MailAttachment, MailMessage } from "../domain/mail.ts";
import type { Dial } from "../network/guarded-dial.ts";
import type { SendMailOptions } from "nodemailer";
import { detectMimeType, encodeWord } from "nodemailer/lib/mime-funcs";
import type { SMTPTransportOptions } from "nodemailer/lib/smtp-transport";
import { boundReplies } from "./bounded-replies.ts";
import { cramMd5 } from "./cram-md5.ts";
import { sendQuit } from "./smtp-quit.ts";
import { rememberHeaderNames } from "./header-names.ts";
import { keepRepliesInSync } from "./reply-sync.ts";
import { joinWrites } from "./joined-writes.ts";
import { closeExhaustedConnections } from "./exhausted-connections.ts";

boundReplies();
keepRepliesInSync();
joinWrites();
rememberHeaderNames();
closeExhaustedConnections();
sendQuit();

/** Milliseconds. nodemailer's own defaults (120, 30 and 600 s) are longer than any caller of ours waits. */
const CONNECTION_TIMEOUT = 10_000;
const GREETING_TIMEOUT = 10_000;
const SOCKET_TIMEOUT = 30_000;

/**
 * Most bytes of one reply; no server needs so many. nodemailer would accept a mebibyte, and keeps the replies to all
 * recipients until the last one: ten such mails would take all of a process's memory.
 */
const LARGEST_REPLY = 16 * 1_024;

/** What every conversation with an account's SMTP server has in common. */
export function smtpOptions(input: {
  account: string;
  settings: Omit<SmtpSettings, "revision">;
  dial: Dial;
  /** Undefined: nodemailer's choice, the machine's name with its domain, or `[127.0.0.1]`. */
  ehloName: string | undefined;
}): SMTPTransportOptions {
  const { account, settings, dial, ehloName } = input;
  const { host, port, tls, username } = settings;
  const credentials = username === null ? null : { user: username, pass: settings.password ?? "" };
  const connect = callbackify(async () => ({
    connection: await dial({ account, protocol: "smtp", host, port }),
  }));
  return {
    host,
    port,
    ...(ehloName === undefined ? {} : { name: ehloName }),
    secure: tls === "implicit",
    // Never in plain text just because a server (or somebody in between) does not offer STARTTLS.
    requireTLS: tls === "starttls",
    ignoreTLS: tls === "none",
    tls: { minVersion: "TLSv1.2" },
    ...(credentials === null
      ? {}
      : {
          auth: credentials,
          customAuth: { "CRAM-MD5": cramMd5(credentials) },
          // Otherwise a server that offers no AUTH would get the mail unauthenticated.
          forceAuth: true,
        }),
    connectionTimeout: CONNECTION_TIMEOUT,
    greetingTimeout: GREETING_TIMEOUT,
    socketTimeout: SOCKET_TIMEOUT,
    maxResponseSize: LARGEST_REPLY,
    disableFileAccess: true,
    disableUrlAccess: true,
    getSocket: (_options, callback) => {
      connect(callback);
    },
  };
}

/** Characters that no plain addr-spec contains, and that separate addresses or commands. */
const SEPARATOR = /[\s,;<>()"\\\p{Cc}]/u;

/** Throws for a text that is not one address, which should have been refused long before. */
function person(address: string): { name: string; address: string } {
  if (address === "" || SEPARATOR.test(address))
    throw Object.assign(new Error("not a plain email address"), { code: "EENVELOPE" });
  return { name: "", address };
}

/** As a list, because nodemailer reads an object with the members `key` and `value` as one header. */
function listed(headers: Readonly<Record<string, string>>): { key: string; value: string }[] {
  return Object.entries(headers).map(([key, value]) => ({ key, value: value.trim() }));
}

/** Most characters of an encoded word, as in nodemailer: with its frame it fits into a line (RFC 2047, 2). */
const WORD = 52;

/**
 * A subject that must be encoded although it is ASCII, which nodemailer does not do. It looks encoded (RFC 2047),
 * and would be shown decoded, perhaps with line breaks; it has spaces that a reader drops, or that fill a line; or
 * it has a word that does not fit into a line with the space before it (RFC 5322, 2.1.1 and 3.2.2).
 */
const NOT_AS_IT_IS = /=\?|^ | $| {70}|[^ ]{998}/;

/** Makes the subject arrive as it is in the log. */
function subjectText(subject: string): string {
  return NOT_AS_IT_IS.test(subject) ? encodeWord(subject, "B", WORD) : subject;
}

/** Without the line end (RFC 5322, 2.1.1). */
const LONGEST_LINE = 998;

const [NUL, LF, CR] = [0, 10, 13];

/** Whether these are lines that every server takes and none changes. Not split: there may be a line for each byte. */
function isPlainLines(bytes: Buffer): boolean {
  if (!isAscii(bytes)) return false;
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    const ends = byte === LF || (byte === CR && bytes[at + 1] === LF);
    length = ends ? 0 : length + 1;
    if (length > LONGEST_LINE || byte === NUL || (byte === CR && !ends)) return false;
  }
  return true;
}

/**
 * A message within a message may not be encoded (RFC 2046, 5.2.1), so that nodemailer sends its bytes as they are.
 * Servers refuse or change bytes that are not plain lines: such a message is sent as a file of any type.
 */
function attachmentType(named: string, content: Buffer): string {
  return !/^message\//i.test(named) || isPlainLines(content) ? named : "application/octet-stream";
}

function attached({ filename, contentType, content }: MailAttachment) {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  return {
    filename,
    content: bytes,
    contentDisposition: "attachment" as const,
    contentType: attachmentType(contentType ?? detectMimeType(filename), bytes),
  };
}

/**
 * The least bytes that a message can have, for a server that announces its limit (RFC 1870). Headers and the
 * encoding of texts come on top.
 */
function leastSize({ body, attachments = [] }: MailMessage): number {
  const attachedBytes = attachments.reduce((sum, { content }) => sum + content.byteLength, 0);
  return Buffer.byteLength(body) + attachedBytes;
}

/**
 * Uses address objects and an explicit envelope, because an address in a string could name further recipients. The
 * body is always a string: as an object it could name a file to send.
 */
export function mailOptions(message: MailMessage, from: string): SendMailOptions {
  const cc = message.cc ?? [];
  const bcc = message.bcc ?? [];
  const attachments = message.attachments ?? [];
  return {
    from: person(from),
    to: [person(message.to)],
    ...(cc.length > 0 ? { cc: cc.map(person) } : {}),
    ...(message.replyTo === undefined ? {} : { replyTo: person(message.replyTo) }),
    envelope: {
      from: person(from),
      to: [message.to, ...cc, ...bcc].map(person),
      size: leastSize(message),
    },
    subject: subjectText(message.subject),
    [message.isHtml ? "html" : "text"]: message.body,
    ...(message.messageId === undefined ? {} : { messageId: `<${message.messageId}>` }),
    ...(message.headers === undefined ? {} : { headers: listed(message.headers) }),
    // Without attachments there is nothing to separate: this saves asking the system for random bytes.
    ...(attachments.length === 0 ? { baseBoundary: "none" } : {}),
    attachments: attachments.map(attached),
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}
