import type { NodemailerError } from "nodemailer";
import { isRetryableSmtpReply, networkError } from "../domain/delivery-outcome.ts";
import { errorMessage } from "../domain/error-message.ts";
import type { MailFailure } from "../domain/mail.ts";
import { DestinationRefused } from "../network/destination-refused.ts";
import { RepliesOutOfSync } from "./reply-sync.ts";

/** Wrong settings, or a wrong mail: another attempt would fail in the same way. */
const PERMANENT_CODES = new Set(["EAUTH", "ENOAUTH", "EENVELOPE", "EMESSAGE", "ECONFIG"]);

/** No connection came free for a mail: nothing of it was sent, and the server is not at fault. */
export class ServerBusy extends Error {
  override name = "ServerBusy";
  constructor(waitedMs: number) {
    super(
      `the account's SMTP server is busy: no connection was free for the mail within ${Math.ceil(waitedMs / 1_000)} s, it was not sent`,
    );
  }
}

/** The reason of a signal that ended a mail because it took longer than a mail may. */
export class MailTimedOut extends Error {
  override name = "MailTimedOut";
  constructor(limitMs: number) {
    super(`timed out: the SMTP server did not finish within ${Math.ceil(limitMs / 1_000)} s`);
  }
}

/**
 * What a failed conversation means (RFC 5321, 4.2.1). `bodyEnded`: the message had been written to its end, so that a
 * server that fell silent may have taken it; without its end it must not take it (RFC 5321, 4.1.1.4).
 */
export function smtpFailure(input: {
  error: unknown;
  bodyEnded: boolean;
  secrets: readonly string[];
}): MailFailure {
  const { error, bodyEnded } = input;
  const fields = readFields(error);
  const failure = {
    kind: "failed",
    error: scrub(describe(error, fields), input.secrets),
    outcomeUnknown: false,
    serverFault: isServerFault(error, fields),
  } as const;
  if (error instanceof DestinationRefused) return { ...failure, retryable: false, refused: true };
  if (fields.responseCode !== undefined)
    return { ...failure, retryable: isRetryableSmtpReply(fields.responseCode) };
  if (PERMANENT_CODES.has(fields.code ?? "")) return { ...failure, retryable: false };
  return {
    ...failure,
    retryable: true,
    outcomeUnknown: bodyEnded || (error instanceof RepliesOutOfSync && error.outcomeUnknown),
    ...(fields.code === "EABORT" && !bodyEnded ? { withdrawn: true } : {}),
  };
}

/**
 * For a mail of which some recipients were refused and the others have it. Not retryable: they would get it twice.
 * Not every error names its recipient.
 */
export function partlyRefused(
  refused: readonly [NodemailerError, ...NodemailerError[]],
  secrets: readonly string[],
): MailFailure {
  const [first] = refused;
  const names = refused.map(({ recipient = "a recipient" }) => recipient).join(", ");
  return {
    ...smtpFailure({ error: first, bodyEnded: false, secrets }),
    error: scrub(`refused for ${names}: ${first.response ?? first.message}`, secrets),
    retryable: false,
    reachedSome: true,
  };
}

/**
 * Whether the next mail would fail in the same way. Not when the server answered a command of this mail, unless
 * with 421, "closing transmission channel" (RFC 5321, 3.8); and not when we refused the mail ourselves.
 */
function isServerFault(error: unknown, { code, responseCode }: ErrorFields): boolean {
  if (error instanceof DestinationRefused || error instanceof ServerBusy) return false;
  if (code === "ECONFIG" || code === "ESTREAM") return false;
  if (responseCode === 421) return true;
  return code !== "EENVELOPE" && code !== "EMESSAGE";
}

interface ErrorFields {
  code?: string;
  originalCode?: string;
  command?: string;
  responseCode?: number;
}

/** The fields that nodemailer sets on an error. */
export function readFields(error: unknown): ErrorFields {
  if (!(error instanceof Error)) return {};
  const { code, originalCode, command, responseCode } = error as Error & Record<string, unknown>;
  return {
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof originalCode === "string" ? { originalCode } : {}),
    ...(typeof command === "string" ? { command } : {}),
    ...(typeof responseCode === "number" ? { responseCode } : {}),
  };
}

/** The server's own words if it answered; otherwise ours, without the IP addresses in system errors. */
function describe(error: unknown, fields: ErrorFields): string {
  if (!(error instanceof Error)) return "unexpected SMTP error";
  if (fields.command === "STARTTLS")
    return `SMTP server: ${error.message}; one that has no TLS takes mails with tls "none" only, in plain text`;
  if (fields.responseCode !== undefined) return error.message;
  const system = fields.originalCode ?? fields.code ?? "";
  if (PLAIN_TEXT.test(system))
    return 'SMTP server: it does not speak TLS at once; if tls is "implicit", which most have on port 465 only, try "starttls"';
  if (SYSTEM_CODE.test(system)) return `SMTP server: ${networkError(system, "server")}`;
  const [, most] = TOO_LARGE.exec(error.message) ?? [];
  if (most !== undefined) return `the mail is too large: the SMTP server takes ${most} bytes`;
  if (error.cause instanceof MailTimedOut) return error.cause.message;
  if (fields.code === "EABORT") return "aborted before the SMTP server answered";
  return SILENCE[error.message] ?? error.message;
}

/** Texts by nodemailer's messages. A server that waits for a TLS handshake, as on port 465, says nothing. */
const SILENCE: Readonly<Record<string, string>> = {
  "Greeting never received":
    "Greeting never received; a server that begins with TLS, as most do on port 465, needs TLS from the start (implicit)",
  Timeout: "the SMTP server stopped answering",
};

/** nodemailer's message for a mail larger than the server's announced limit; it does not send it. */
const TOO_LARGE = /^Message size larger than allowed (\d+)$/;

/** What a server that greets in plain text is for the TLS library. */
const PLAIN_TEXT = /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/;

const SYSTEM_CODE =
  /^(?:ECONNREFUSED|ECONNRESET|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|CERT_.+|DEPTH_ZERO.+|SELF_SIGNED.+|UNABLE_TO.+|ERR_TLS.+|ERR_SSL.+)$/;

/**
 * Removes secrets, because a server may quote what we sent: the password, and its encodings for AUTH. A server that
 * means to tell it has it, and any number of other forms for it: they are not looked for.
 */
export function scrub(text: string, secrets: readonly string[]): string {
  let clean = text.toWellFormed().replace(CONTROL, " ");
  for (const secret of secrets) if (secret !== "") clean = clean.replaceAll(secret, "[secret]");
  return errorMessage(clean);
}

/** Control characters: PostgreSQL refuses NUL, and terminals obey the others. */
const CONTROL = /[\p{Cc}--[\t\n]]+/gv;

export function secretsOf(settings: {
  username: string | null;
  password: string | null;
}): string[] {
  const { username, password } = settings;
  if (password === null || password === "") return [];
  return [`\0${username ?? ""}\0${password}`, password].flatMap((text) => [
    Buffer.from(text, "utf8").toString("base64"),
    text,
  ]);
}
