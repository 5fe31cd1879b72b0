import { createTransport } from "nodemailer";
import type { SmtpSettings } from "../domain/account.ts";
import type { MailResult } from "../domain/mail.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Dial } from "../network/guarded-dial.ts";
import { scrub, secretsOf, smtpFailure } from "./smtp-failure.ts";
import { mailOptions, smtpOptions } from "./smtp-options.ts";

const MAX_LINES = 200;

/**
 * One conversation over a connection of its own, for the "send a test mail" of the dashboard. The transcript is
 * what went over the wire, line by line (`C:` ours, `S:` the server's), without the mail itself and without any
 * form of the password. Throws DependencyUnavailable when the server could not be called because something on our
 * side is away.
 */
export async function testSettings(input: {
  account: string;
  settings: Omit<SmtpSettings, "revision">;
  to: string;
  dial: Dial;
  ehloName: string | undefined;
  messageId: string;
  signal: AbortSignal;
}): Promise<{ result: MailResult; transcript: string[] }> {
  const { settings, to, messageId, signal } = input;
  const secrets = secretsOf(settings);
  const transcript: string[] = [];
  const record = (entry: unknown, text: unknown): void => {
    const side = sideOf(entry);
    if (side === null || typeof text !== "string") return;
    // The size of a reply is bounded, but within that a server may send any number of lines.
    for (const line of text.split(/\r?\n/, MAX_LINES - transcript.length))
      transcript.push(`${side}: ${scrub(line, secrets)}`);
  };
  let ended = false;
  const watch = (entry: unknown): void => {
    ended ||= isMessageEnd(entry);
  };
  const transport = createTransport({
    ...smtpOptions(input),
    transactionLog: true,
    logger: { trace: quiet, debug: record, info: watch, warn: quiet, error: quiet, fatal: quiet },
  });
  try {
    const message = {
      to,
      subject: "Carillon: your SMTP settings work",
      body: "This is a test mail. Carillon can send through this SMTP server.\n",
      isHtml: false,
      messageId,
    };
    await transport.sendMail(Object.assign(mailOptions(message, settings.from), { signal }));
    return { result: { kind: "accepted", messageId }, transcript };
  } catch (error) {
    if (error instanceof DependencyUnavailable) throw error;
    return { result: smtpFailure({ error, bodyEnded: ended, secrets }), transcript };
  } finally {
    transport.close();
  }
}

function quiet(): void {
  // The transcript has only what went over the wire.
}

/** nodemailer marks its transaction log with `tnx`. */
function markOf(entry: unknown): unknown {
  return typeof entry === "object" && entry !== null && "tnx" in entry ? entry.tnx : undefined;
}

function sideOf(entry: unknown): "C" | "S" | null {
  const mark = markOf(entry);
  if (mark === "client") return "C";
  return mark === "server" ? "S" : null;
}

/** Logged once the connection has taken a message to its end. */
function isMessageEnd(entry: unknown): boolean {
  return markOf(entry) === "message";
}
