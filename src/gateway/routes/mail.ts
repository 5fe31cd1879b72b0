import { normaliseAddress, wireAddress } from "../../domain/address.ts";
import { isoUtc } from "../../domain/instant.ts";
import {
  mailFailureText,
  NO_SMTP_SETTINGS,
  OTP_MINUTES,
  type EmailLogEntry,
  type MailFailure,
  type MailKind,
  type MailMessage,
  type MailResult,
} from "../../domain/mail.ts";
import { DependencyUnavailable, LockHeld } from "../../domain/ports/dependency-unavailable.ts";
import type { IdempotencyKeys } from "../../domain/ports/idempotency-keys.ts";
import type { EmailLog, Mailer, Otps } from "../../domain/ports/mail.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { ApiAnswer, ApiRequest } from "../endpoint.ts";
import { ApiError, invalid, tooMuchAtOnce } from "../errors.ts";
import { EffectUncertain, idempotently } from "../idempotency.ts";
import { addressFindings, mailMessage } from "../mail-message.ts";
import type { LogsQuery, OtpSendRequest, OtpVerifyRequest, SendRequest } from "../schema/mail.ts";

export interface MailRouteOptions {
  mailer: Mailer;
  emailLog: EmailLog;
  otps: Otps;
  idempotency: IdempotencyKeys;
  /** The mail that carries a code. */
  otpMessage: (passcode: { to: string; code: string; minutes: number }) => MailMessage;
  metrics: Metrics;
  report: (error: unknown) => void;
}

type Sender = Pick<ApiRequest, "account" | "smtpRevision">;

const CODE = /^[0-9]{6}$/;

interface LogCheck {
  /** For whose entries it asks. */
  account: string;
  done: Promise<void>;
}

export function mailRoutes(options: MailRouteOptions) {
  const { mailer, emailLog, otps, metrics } = options;
  /** The last entry of a mail that was sent could not be written to the log. */
  let logAway = false;
  /** Accounts whose entries met a lock that somebody holds: on the account's counters, as far as is known. */
  const locked = new Set<string>();
  /** Checks under way whether the log takes entries by now: for one of `locked`, and in general. */
  const checks: { ofLocked?: LogCheck | undefined; general?: LogCheck | undefined } = {};

  return {
    async sendEmail(request: ApiRequest<SendRequest>): Promise<ApiAnswer> {
      const message = mailMessage(request.body);
      const { account, smtpRevision } = request;
      const { to, subject } = request.body;
      return idempotently({
        keys: options.idempotency,
        request,
        scope: "POST /send",
        repeatable: false,
        report: options.report,
        // This must not refer to the request: its JSON would stay in memory while the mail waits.
        work: async () => {
          await untilLogWritable(account);
          const result = await mailer.send(account, message, { smtpRevision });
          if (result.kind === "unconfigured") throw smtpNotConfigured();
          refuseBeyondQueue(result);
          const entry = await appendToLog(account, "email", { to, subject }, result);
          if (result.kind === "failed") throw sendingFailed(result);
          return {
            status: 200,
            body: { id: entry.id, to, subject, status: "sent", sent_at: isoUtc(entry.sentAt) },
          };
        },
      });
    },

    async sendOtp(request: ApiRequest<OtpSendRequest>): Promise<ApiAnswer> {
      const { to } = request.body;
      refuseBadAddress("to", to);
      const { account, smtpRevision } = request;
      return idempotently({
        keys: options.idempotency,
        request,
        scope: "POST /send/otp",
        // A second code replaces the first, whether or not that was mailed.
        repeatable: true,
        report: options.report,
        // No reference to the request here either.
        work: () => sendCode({ account, smtpRevision }, to),
      });
    },

    async verifyOtp(request: ApiRequest<OtpVerifyRequest>): Promise<ApiAnswer> {
      const { email, code } = request.body;
      refuseBadAddress("email", email);
      await refuseWithoutSettings(request);
      const verified =
        CODE.test(code) && (await otps.verify(request.account, normaliseAddress(email), code));
      metrics.otps.inc({ outcome: verified ? "verified" : "refused" });
      if (!verified) throw new ApiError("invalid_otp", "invalid or expired OTP");
      return { status: 200, body: { verified: true, message: "OTP verified" } };
    },

    async listLogs(request: ApiRequest<undefined, LogsQuery>): Promise<ApiAnswer> {
      const { account, query } = request;
      const { logs, total } = await emailLog.list({ ...query, account });
      const { limit, offset } = query;
      return { status: 200, body: { logs: logs.map(restLogEntry), total, limit, offset } };
    },
  };

  /** Invalidates the old code, mails the new one, and activates it only if its mail was accepted. */
  async function sendCode(sender: Sender, to: string): Promise<ApiAnswer> {
    const { account, smtpRevision } = sender;
    await refuseWithoutSettings(sender);
    const issued = await otps.issue(account, normaliseAddress(to));
    if (issued.kind === "limited") {
      metrics.otps.inc({ outcome: "limited" });
      throw new ApiError(
        "otp_rate_limited",
        "too many codes were sent to this address: wait as many seconds as Retry-After says",
        { retryAfterSeconds: issued.retryAfterSeconds },
      );
    }
    const message = options.otpMessage({
      to: wireAddress(to),
      code: issued.code,
      minutes: OTP_MINUTES,
    });
    const result = withoutCode(
      issued.code,
      await mailer
        .send(account, { ...message, kind: "otp" }, { smtpRevision })
        .catch(async (error: unknown) => {
          // The mail was not tried, because of something on our side.
          await otps.withdraw(issued.id).catch(options.report);
          throw error;
        }),
    );
    const sent = result.kind === "accepted";
    // The mail is logged even if this fails.
    const [settled] = await Promise.allSettled([settle(issued.id, result)]);
    // Only reported: a code that was not activated is not valid anyway.
    if (!sent && settled.status === "rejected") options.report(settled.reason);
    // The settings were deleted between the check and the send.
    if (result.kind === "unconfigured") throw smtpNotConfigured();
    metrics.otps.inc({ outcome: sent ? "sent" : "send_failed" });
    refuseBeyondQueue(result);
    // The log shows subjects, but must never show a code.
    const about = { to, subject: masked(issued.code, message.subject) };
    // Whether the code is valid is settled by now: a log that is away must not change the answer.
    await appendToLog(account, "otp", about, result).catch((error: unknown) => {
      if (!(error instanceof EffectUncertain)) throw error;
      options.report(error.answer);
    });
    if (!sent) throw new ApiError("smtp_failed", mailFailureText(result));
    if (settled.status === "rejected") throw settled.reason;
    return {
      status: 200,
      body: { message: "OTP sent", expires_at: isoUtc(issued.expiresAt) },
    };
  }

  /**
   * Does not count a send that certainly failed: the limit must not refuse codes because the mail server was away for
   * a moment.
   */
  async function settle(id: string, result: MailResult): Promise<void> {
    if (result.kind === "accepted") return otps.activate(id);
    const mayHave = result.kind === "failed" && mayHaveArrived(result);
    return mayHave ? otps.discard(id) : otps.withdraw(id);
  }

  /**
   * A client that gets 503 tries again. Where PostgreSQL can be read but not written, as after a failover, each try
   * would send one more mail. So after one that could not be logged, nothing is sent until the log can be written.
   */
  async function untilLogWritable(account: string): Promise<void> {
    // One check serves all requests: while it waits for a lock it takes a connection, which others need. Accounts known
    // to wait for a lock are checked separately, each until its own entries are taken.
    while (logAway || locked.has(account)) {
      const kind = locked.has(account) ? "ofLocked" : "general";
      const check = (checks[kind] ??= {
        account,
        done: checkLog(account).finally(() => {
          checks[kind] = undefined;
        }),
      });
      try {
        await check.done;
        if (kind === "general") logAway = false;
      } catch (error) {
        // The lock of another account says nothing about this one's entries.
        if (!(error instanceof LockHeld) || check.account === account) throw error;
      }
    }
  }

  async function checkLog(account: string): Promise<void> {
    try {
      await emailLog.ready(account);
      locked.delete(account);
    } catch (error) {
      noteLock(account, error);
      throw error;
    }
  }

  function noteLock(account: string, error: unknown): void {
    if (error instanceof LockHeld) locked.add(account);
  }

  async function refuseWithoutSettings({ account, smtpRevision }: Sender): Promise<void> {
    if (smtpRevision === undefined && !(await mailer.configured(account)))
      throw smtpNotConfigured();
  }

  async function appendToLog(
    account: string,
    kind: MailKind,
    about: { to: string; subject: string },
    result: Exclude<MailResult, { kind: "unconfigured" }>,
  ): Promise<EmailLogEntry> {
    const failed = result.kind === "failed";
    try {
      return await emailLog.append({
        account,
        kind,
        ...about,
        status: failed ? "failed" : "sent",
        errorMessage: failed ? mailFailureText(result) : null,
      });
    } catch (cause) {
      // Nobody has the mail: a second try does no harm.
      if (failed && !mayHaveArrived(result)) throw cause;
      logAway = cause instanceof DependencyUnavailable;
      noteLock(account, cause);
      if (failed) {
        options.report(cause);
        throw sendingFailed(result);
      }
      throw new EffectUncertain(
        new ApiError("sent_not_logged", "the mail was accepted but could not be logged", { cause }),
      );
    }
  }
}

function refuseBadAddress(field: string, address: string): void {
  const findings = addressFindings(field, address);
  if (findings.length > 0) throw invalid(findings);
}

/** A server may quote the mail that it refuses, for the log and whoever asked for the code. */
function withoutCode(code: string, result: MailResult): MailResult {
  return result.kind === "failed" ? { ...result, error: masked(code, result.error) } : result;
}

function masked(code: string, text: string): string {
  return text.replaceAll(code, "••••••");
}

/** 429. Not in the email log: the request is refused, as by any other limit, and there may be thousands. */
function refuseBeyondQueue(result: MailResult): void {
  if (result.kind === "failed" && result.queueFull === true) throw tooMuchAtOnce(result.error);
}

/** A second try with the same key must not send the mail again to those who have it, or may have it. */
function sendingFailed(result: MailFailure): Error {
  const answer = new ApiError("smtp_failed", mailFailureText(result));
  return mayHaveArrived(result) ? new EffectUncertain(answer) : answer;
}

/** Whether some recipient has the mail, or may have it, although sending failed. */
function mayHaveArrived({ outcomeUnknown, reachedSome }: MailFailure): boolean {
  return outcomeUnknown || reachedSome === true;
}

function smtpNotConfigured(): ApiError {
  return new ApiError("smtp_not_configured", NO_SMTP_SETTINGS);
}

export function restLogEntry(entry: EmailLogEntry) {
  return {
    id: entry.id,
    to: entry.to,
    subject: entry.subject,
    status: entry.status,
    error_message: entry.errorMessage,
    sent_at: isoUtc(entry.sentAt),
    kind: entry.kind,
  };
}
