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
   * The mail waits for one of its account's connections until the signal aborts. Without a signal, the wait counts
   * as part of the mail's time, of which some is kept for sending, and only a limited number of mails wait.
   */
  signal?: AbortSignal;
  /**
   * Asked before the message's first byte, and again before its end, on which the server acts (RFC 5321, 4.1.1.4).
   * When it says no, the connection is dropped and nobody gets the mail.
   */
  maySend?: () => boolean;
  /**
   * The settings' revision, if the caller has just read it: connections opened with it are used without another
   * look-up.
   */
  smtpRevision?: string | undefined;
}

/** Sends through the account's own SMTP server. Expected failures are results, not errors. */
export interface Mailer {
  send(account: string, message: MailMessage, options?: MailOptions): Promise<MailResult>;
  configured(account: string): Promise<boolean>;
  /**
   * One conversation with settings that are not saved yet; the transcript has no secret in it. Throws
   * DependencyUnavailable when none could begin for a reason other than the server.
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
  /**
   * Those of the entries' accounts on whose part of the log somebody holds a lock for longer than a statement of ours
   * does. `briefly`: or for no longer. Waits for no lock.
   */
  locked(
    entries: readonly NewEmailLogEntry[],
    options?: { briefly: boolean },
  ): Promise<ReadonlySet<string>>;
  /**
   * Throws DependencyUnavailable while nothing can be written: the server is read-only or full, or somebody holds a
   * lock.
   */
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
  /** The mail was accepted: the code is valid from now on, unless a newer one was issued meanwhile. */
  activate(id: string): Promise<void>;
  discard(id: string): Promise<void>;
  /** Discards it, and the send does not count: nobody can have received the mail. */
  withdraw(id: string): Promise<void>;
  /** Atomic and single use. Every failure looks the same to the caller. */
  verify(account: string, address: string, code: string): Promise<boolean>;
}
