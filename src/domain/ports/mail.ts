import type { SmtpSettings } from "../account.ts";
import type { Instant } from "../instant.ts";
import type {
  EmailLogEntry,
  MailKind,
  MailMessage,
  MailResult,
  NewEmailLogEntry,
} from "../mail.ts";

export interface MailOptions {
  /**
   * A mail waits for a connection of its account's until it aborts. Without one, that is part of the mail's time, and
   * no more than so many mails wait.
   */
  signal?: AbortSignal;
  /**
   * Asked before the message's first byte and again before its end, which is what a server acts on (RFC 5321,
   * 4.1.1.4). Where it says no, the connection is dropped and nobody gets the mail.
   */
  maySend?: () => boolean;
  /** The settings' revision that the caller has read: connections that were opened with it need not ask again. */
  smtpRevision?: string | undefined;
}

/** Sends through the account's own SMTP server. Expected failures are results, not errors. */
export interface Mailer {
  send(account: string, message: MailMessage, options?: MailOptions): Promise<MailResult>;
  configured(account: string): Promise<boolean>;
  /**
   * One conversation with settings that are not saved yet; the transcript carries no secret. Throws DependencyUnavailable
   * where none could begin, and the server is not why.
   */
  test(
    account: string,
    settings: Omit<SmtpSettings, "revision">,
    to: string,
  ): Promise<{ result: MailResult; transcript: string[] }>;
  close(): Promise<void>;
}

export interface EmailLog {
  /** Group-committed; resolves when durable. Throws ContentRefused. */
  append(entry: NewEmailLogEntry): Promise<EmailLogEntry>;
  /** Accounts of these whose part of the log somebody holds a lock on. Nothing is waited for. */
  locked(entries: readonly NewEmailLogEntry[]): Promise<ReadonlySet<string>>;
  /** Throws DependencyUnavailable while nothing can be written: on a server that is read-only or full, or behind a lock. */
  ready(account: string): Promise<void>;
  /** Newest first. `total` counts what the filters match, exactly. */
  list(query: {
    account: string;
    limit: number;
    offset: number;
    status?: EmailLogEntry["status"];
    kind?: MailKind;
    to?: string;
  }): Promise<{ logs: EmailLogEntry[]; total: number }>;
}

/** One-time passcodes. Addresses are normalised by the caller. */
export interface Otps {
  /**
   * Invalidates the earlier code and counts the send. The new code is not active before `activate`.
   * `limited`: too many sends; try again after so many seconds.
   */
  issue(
    account: string,
    address: string,
  ): Promise<
    | { kind: "issued"; id: string; code: string; expiresAt: Instant }
    | { kind: "limited"; retryAfterSeconds: number }
  >;
  /** The mail was accepted: the code counts from now on, unless a newer issue came in between. */
  activate(id: string): Promise<void>;
  discard(id: string): Promise<void>;
  /** Discards it, and the send does not count: nobody can have its mail. */
  withdraw(id: string): Promise<void>;
  /** Atomic and single use. Every failure looks the same to the caller. */
  verify(account: string, address: string, code: string): Promise<boolean>;
}
