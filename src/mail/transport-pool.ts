import { createTransport } from "nodemailer";
import type { SmtpSettings } from "../domain/account.ts";
import type { MailMessage, MailResult } from "../domain/mail.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { Dial } from "../network/guarded-dial.ts";
import { messageStream } from "./message-stream.ts";
import { readFields, secretsOf, smtpFailure } from "./smtp-failure.ts";
import { mailOptions, smtpOptions } from "./smtp-options.ts";

export type SendResult = Exclude<MailResult, { kind: "unconfigured" }>;

/** Open connections to one account's SMTP server, as of one revision of its settings. */
export interface TransportPool {
  revision: string;
  from: string;
  /** `maySend`: as the Mailer's. */
  send(
    message: MailMessage & { messageId: string },
    signal: AbortSignal,
    maySend?: () => boolean,
  ): Promise<SendResult>;
  /** Takes no new mail; closes its connections once the mails in flight are through. */
  retire(): void;
  /** Closes now; mails in flight fail. */
  close(): void;
}

/** Below the shortest common idle limits of servers, so that it is we who close. */
const IDLE_TIMEOUT = 30_000;

export function createTransportPool(options: {
  account: string;
  settings: SmtpSettings;
  dial: Dial;
  connections: number;
  ca?: string;
}): TransportPool {
  const { settings } = options;
  const secrets = secretsOf(settings);
  const transport = createTransport({
    ...smtpOptions(options),
    pool: true,
    maxConnections: options.connections,
    // A requeued mail could go out twice; the one safe case is handled below.
    maxRequeues: 0,
    idleTimeout: IDLE_TIMEOUT,
  });
  /** By the attempt's signal: nodemailer copies everything else of what it is given. */
  const bodies = new WeakMap<object, Body>();
  transport.use("stream", (mail, done) => {
    const body = mail.data.signal && bodies.get(mail.data.signal);
    const { message } = mail;
    const create = message.createReadStream.bind(message);
    message.createReadStream = () => {
      message.createReadStream = create;
      const stream = messageStream(message, () => {
        if (body?.maySend?.() === false)
          throw new Error("the claim was lost before the mail was sent");
      });
      stream.once("end", () => {
        if (body) body.ended = true;
      });
      return stream;
    };
    done();
  });
  // Errors of idle connections; those of a mail reach its own promise.
  transport.on("error", () => undefined);

  let inFlight = 0;
  let retired = false;

  async function attempt(
    message: MailMessage & { messageId: string },
    signal: AbortSignal,
    maySend?: () => boolean,
  ): Promise<SendResult | "stale"> {
    const body: Body = { ended: false, maySend };
    bodies.set(signal, body);
    try {
      const data = Object.assign(mailOptions(message, settings.from), { signal });
      const info = await transport.sendMail(data);
      const [refused] = info.rejectedErrors ?? [];
      // Some recipients have it: a repeat would give it to them twice.
      if (refused !== undefined)
        return {
          ...smtpFailure({ error: refused, bodyEnded: false, secrets }),
          retryable: false,
        };
      return { kind: "accepted", messageId: message.messageId };
    } catch (error) {
      // The account's rules could not be read to check the server: no mail has left.
      if (error instanceof DependencyUnavailable) throw error;
      if (!signal.aborted && !body.ended && closedWhileIdle(error)) return "stale";
      return smtpFailure({ error, bodyEnded: body.ended, secrets });
    }
  }

  return {
    revision: settings.revision,
    from: settings.from,
    send: async (message, signal, maySend) => {
      inFlight += 1;
      try {
        const first = await attempt(message, signal, maySend);
        if (first !== "stale") return first;
        const second = await attempt(message, signal, maySend);
        if (second !== "stale") return second;
        return {
          kind: "failed",
          error: "SMTP server: connection closed before the mail was sent",
          retryable: true,
          outcomeUnknown: false,
          serverFault: true,
        };
      } finally {
        inFlight -= 1;
        if (retired && inFlight === 0) transport.close();
      }
    },
    retire: () => {
      retired = true;
      if (inFlight === 0) transport.close();
    },
    close: () => {
      retired = true;
      transport.close({ force: true });
    },
  };
}

interface Body {
  /** Written to its end. */
  ended: boolean;
  maySend: (() => boolean) | undefined;
}

/**
 * The connection was closed by the server before a byte of the mail was read: nodemailer would requeue
 * (and with maxRequeues 0 fails with an error that belongs to no command). Sending once more is safe.
 */
function closedWhileIdle(error: unknown): boolean {
  const { code, command, responseCode } = readFields(error);
  return code === "ECONNECTION" && command === undefined && responseCode === undefined;
}
