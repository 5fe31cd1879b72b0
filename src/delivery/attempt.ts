import { randomBytes } from "node:crypto";
import { parseAddress } from "../domain/address.ts";
import { deliveryDeadline } from "../domain/after-attempt.ts";
import { brokenOff, classifyMail } from "../domain/delivery-outcome.ts";
import type { EmailTarget } from "../domain/job.ts";
import { mailFailureText, type MailResult, type NewEmailLogEntry } from "../domain/mail.ts";
import type { Clock } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Mailer } from "../domain/ports/mail.ts";
import type { ClaimedRun, DeliveryOutcome } from "../domain/run.ts";
import { UNREADABLE } from "../domain/stored-spec.ts";
import { uuidV7 } from "../domain/uuid-v7.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { LightAbort } from "../waiting/light-abort.ts";
import type { WebhookSender } from "./webhook.ts";
import type { WriteBehind } from "./write-behind.ts";

export type AttemptOutcome = DeliveryOutcome | { kind: "not_sent" };

/** One attempt of one run, whatever it delivers. Never rejects. */
export type Attempt = (input: {
  run: ClaimedRun;
  signingSecrets: readonly string[];
  cancellation: LightAbort;
  maySend: () => boolean;
}) => Promise<AttemptOutcome>;

export function createAttempt(options: {
  webhook: Pick<WebhookSender, "send">;
  mailer: Pick<Mailer, "send">;
  emailLog: Pick<WriteBehind<NewEmailLogEntry>, "add">;
  clock: Clock;
  log: Logger;
}): Attempt {
  const { webhook, mailer, emailLog, clock, log } = options;

  async function attemptMail(input: {
    run: ClaimedRun;
    target: EmailTarget;
    signal: AbortSignal;
    maySend: () => boolean;
  }): Promise<AttemptOutcome> {
    const { run, target, signal } = input;
    let claimLost = false;
    const maySend = (): boolean => {
      claimLost ||= !input.maySend();
      return !claimLost;
    };
    const result = await sendMail(run, target, signal, maySend);
    if (claimLost || (signal.aborted && withdrawn(result))) return { kind: "not_sent" };
    logMail(run.account, target, result);
    return classifyMail(result);
  }

  async function sendMail(
    run: ClaimedRun,
    { to, subject, body, isHtml }: EmailTarget,
    signal: AbortSignal,
    maySend: () => boolean,
  ): Promise<MailResult> {
    // Checked here too: an address in a resource has only passed the API server's schema.
    const parsed = parseAddress(to);
    if (parsed.kind === "invalid")
      return {
        kind: "failed",
        error: `the recipient's address ${parsed.reason}`,
        retryable: false,
        outcomeUnknown: false,
        serverFault: null,
      };
    // All attempts have the run's id as Message-ID, so that mail systems can remove duplicates.
    const message = { subject, body, isHtml, messageId: run.id, kind: "job" } as const;
    return mailer.send(run.account, { ...message, to: parsed.address }, { signal, maySend });
  }

  function logMail(account: string, { to, subject }: EmailTarget, result: MailResult): void {
    if (result.kind === "unconfigured") return;
    const failed = result.kind === "failed";
    const sentAt = clock.now();
    emailLog.add({
      account,
      kind: "job",
      to,
      subject,
      status: failed ? "failed" : "sent",
      errorMessage: failed ? mailFailureText(result) : null,
      known: { id: uuidV7(sentAt, randomBytes(10)), sentAt },
    });
  }

  return async ({ run, signingSecrets, cancellation, maySend }) => {
    const { target, refusal } = run.spec;
    try {
      if (!maySend()) return { kind: "not_sent" };
      // A worker of the release that made it can send it. Where there is none, the job is refused, and its scheduled runs
      // are dropped; those by hand would wait for ever.
      if (refusal === UNREADABLE && clock.now() < deliveryDeadline(run))
        return { kind: "not_sent" };
      // Otherwise the run was asked for while the job was valid, and created when it was no longer.
      if (refusal)
        return {
          kind: "permanent",
          httpStatus: 500,
          error: `${refusal.field} ${refusal.message}`,
          destinationFault: null,
        };
      return target.kind === "email"
        ? await attemptMail({ run, target, signal: cancellation.signal, maySend })
        : await webhook.send({ run, target, signingSecrets, signal: cancellation, maySend });
    } catch (error) {
      // An attempt reads from the database only before its first byte leaves.
      if (error instanceof DependencyUnavailable) return { kind: "not_sent" };
      log.error({ err: error, run: run.id }, "an attempt failed in an unexpected way");
      return brokenOff("internal error");
    }
  };
}

function withdrawn(result: MailResult): boolean {
  return result.kind === "failed" && result.withdrawn === true;
}
