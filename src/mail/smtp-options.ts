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
import { sayQuit } from "./farewell.ts";
import { rememberHeaderNames } from "./header-names.ts";
import { keepInStep } from "./in-step.ts";
import { joinWrites } from "./joined-writes.ts";
import { closeTiredConnections } from "./tired-connections.ts";

boundReplies();
keepInStep();
joinWrites();
rememberHeaderNames();
closeTiredConnections();
sayQuit();

/** Milliseconds. nodemailer's own defaults (120, 30 and 600 s) outlive every caller of ours. */
const CONNECTION_TIMEOUT = 10_000;
const GREETING_TIMEOUT = 10_000;
const SOCKET_TIMEOUT = 30_000;

/**
 * Bytes of one reply, far more than a server has to say. nodemailer would take a mebibyte, and keeps what a server
 * says to each recipient until it has refused the last: ten such mails took all of a process's memory.
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
    // Never in the clear because a server (or somebody in between) does not offer STARTTLS.
    requireTLS: tls === "starttls",
    ignoreTLS: tls === "none",
    tls: { minVersion: "TLSv1.2" },
    ...(credentials === null
      ? {}
      : {
          auth: credentials,
          customAuth: { "CRAM-MD5": cramMd5(credentials) },
          // Or a server that offers no AUTH would get the mail unauthenticated.
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

/** What no plain addr-spec contains, and what separates addresses or commands. */
const SEPARATOR = /[\s,;<>()"\\\p{Cc}]/u;

/** Throws for what is not one address: it was to be refused long before. */
function person(address: string): { name: string; address: string } {
  if (address === "" || SEPARATOR.test(address))
    throw Object.assign(new Error("not a plain email address"), { code: "EENVELOPE" });
  return { name: "", address };
}

/** As an object, two that are called `key` and `value` would be one, of any name. */
function listed(headers: Readonly<Record<string, string>>): { key: string; value: string }[] {
  return Object.entries(headers).map(([key, value]) => ({ key, value: value.trim() }));
}

/** Characters of an encoded word, as nodemailer has them: with its frame, a line takes it (RFC 2047, 2). */
const WORD = 52;

/**
 * What nodemailer, which encodes what is not ASCII, leaves alone: a text that looks encoded (RFC 2047) and would be
 * shown as what it stands for, with the line breaks that none may have; spaces that a reader drops, or that fill a
 * line; a word that no line takes, with the space that begins it (RFC 5322, 2.1.1 and 3.2.2).
 */
const NOT_AS_IT_IS = /=\?|^ | $| {70}|[^ ]{998}/;

/** The subject that arrives is the one that the log has. */
function subjectText(subject: string): string {
  return NOT_AS_IT_IS.test(subject) ? encodeWord(subject, "B", WORD) : subject;
}

/** Without its end (RFC 5322, 2.1.1). */
const LONGEST_LINE = 998;

const [NUL, LF, CR] = [0, 10, 13];

/** Lines that every server takes and none changes. There may be a line for each byte: nothing is made of them. */
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
 * A message within a message may not be encoded (RFC 2046, 5.2.1), and nodemailer sends its bytes as they are: servers
 * refuse or change what is not plain lines. That goes as a file of any bytes.
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
 * Bytes that a message has at least, for a server that says how many it takes (RFC 1870). Headers come on top, and
 * what encodes a text.
 */
function leastSize({ body, attachments = [] }: MailMessage): number {
  const attachedBytes = attachments.reduce((sum, { content }) => sum + content.byteLength, 0);
  return Buffer.byteLength(body) + attachedBytes;
}

/**
 * Address objects and an explicit envelope: an address in a string could name further recipients. The
 * body is always a string under a typed name: as an object it could name a file to mail.
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
    // Nothing to separate: saves asking the system for random bytes.
    ...(attachments.length === 0 ? { baseBoundary: "none" } : {}),
    attachments: attachments.map(attached),
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}
