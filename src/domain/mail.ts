import { errorMessage } from "./error-message.ts";
import type { Instant } from "./instant.ts";

/** A message as the gateway accepted it: plain addr-specs, validated, no header injection possible. */
export interface MailMessage {
  to: string;
  subject: string;
  body: string;
  isHtml: boolean;
  cc?: readonly string[];
  bcc?: readonly string[];
  replyTo?: string;
  headers?: Readonly<Record<string, string>>;
  attachments?: readonly MailAttachment[];
  /**
   * Fixed for all attempts of a run; made up when absent. Without angle brackets; without a domain it gets the
   * sender's.
   */
  messageId?: string;
  /** What it is sent for, for the metrics; `email` when absent. */
  kind?: MailKind;
}

export interface MailAttachment {
  filename: string;
  contentType?: string;
  content: Uint8Array;
}

/** How the SMTP conversation ended. `retryable` speaks of SMTP 4xx and network trouble. */
export type MailResult =
  | { kind: "accepted"; messageId: string }
  /** The account has no SMTP settings: 422. */
  | { kind: "unconfigured" }
  /**
   * `outcomeUnknown`: the connection was lost after DATA; the mail may have been delivered.
   * `reachedSome`: it was accepted for some of its recipients.
   * `serverFault`: no mail would have got through: no connection, TLS, a refused greeting or AUTH, 421.
   * Otherwise the server is at work and spoke of this mail alone (greylisting, an unknown recipient); null:
   * it was not asked.
   * `withdrawn`: its signal aborted, or its time ended, before the server had been given all of it.
   * `queueFull`: too many mails wait for the server already; this one did not.
   * `refused`: the guard lets nobody call this server.
   */
  | {
      kind: "failed";
      error: string;
      retryable: boolean;
      outcomeUnknown: boolean;
      reachedSome?: boolean;
      serverFault?: boolean | null;
      withdrawn?: boolean;
      queueFull?: boolean;
      refused?: boolean;
    };

export type MailFailure = Extract<MailResult, { kind: "failed" }>;

/**
 * The server's words, with a note where a second try could give somebody the mail twice. In the form in which it is
 * stored, for callers, the log of mails and the history of jobs.
 */
export function mailFailureText({ error, outcomeUnknown, reachedSome }: MailFailure): string {
  const note =
    reachedSome === true
      ? " (the mail was sent to its other recipients)"
      : outcomeUnknown
        ? " (the mail may have been sent all the same)"
        : "";
  return errorMessage(error, note);
}

/** The text for `unconfigured`, for callers and the history of jobs. */
export const NO_SMTP_SETTINGS =
  "no SMTP configuration has been set up: enter the account's SMTP server in the dashboard, under SMTP, or with carillon admin smtp set";

/** How long a passcode is valid, from its issue. */
export const OTP_MINUTES = 10;

export const MAIL_KINDS = ["email", "otp", "job"] as const;
export type MailKind = (typeof MAIL_KINDS)[number];
export const MAIL_STATUSES = ["sent", "failed"] as const;

export interface EmailLogEntry {
  id: string;
  kind: MailKind;
  to: string;
  subject: string;
  status: (typeof MAIL_STATUSES)[number];
  errorMessage: string | null;
  sentAt: Instant;
}

/**
 * An entry for the log, which adds its id and time. Who may append it twice gives them as `known`: that makes one
 * entry.
 */
export type NewEmailLogEntry = Omit<EmailLogEntry, "id" | "sentAt"> & {
  account: string;
  known?: Pick<EmailLogEntry, "id" | "sentAt">;
};
