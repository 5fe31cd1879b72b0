import type { NodemailerError } from "nodemailer";
import MailComposer from "nodemailer/lib/mail-composer";
import type { MailMessage as PooledMail } from "nodemailer/lib/mailer";
import type MimeNode from "nodemailer/lib/mime-node";
import SMTPPool from "nodemailer/lib/smtp-pool";
import type { SmtpSettings } from "../domain/account.ts";
import type { MailFailure, MailMessage, MailResult } from "../domain/mail.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import { createTurns } from "../waiting/turns.ts";
import type { Dial } from "../network/guarded-dial.ts";
import { OutOfStep } from "./in-step.ts";
import { watchReading } from "./message-stream.ts";
import { partlyRefused, readFields, secretsOf, ServerBusy, smtpFailure } from "./smtp-failure.ts";
import { mailOptions, smtpOptions } from "./smtp-options.ts";

export type SendResult = Exclude<MailResult, { kind: "unconfigured" }>;

/**
 * `stale`: the connection had been closed, or was out of step, and nothing was sent. `crowded`: the server did not take the
 * mail for now, perhaps only because of our other connections.
 */
type Attempt =
  SendResult | { kind: "stale"; failure: SendResult } | { kind: "crowded"; failure: MailFailure };

/** How long a mail may take. */
export interface TimeLimit {
  signal: AbortSignal;
  /** Somebody waits for an answer: the mail's wait is part of its time. */
  awaited: boolean;
  /** The mail has a connection for itself: its time begins now. */
  begin: () => void;
}

/** Open connections to one account's SMTP server, as of one revision of its settings. */
export interface TransportPool {
  revision: string;
  from: string;
  /**
   * Waits for its turn, in the order in which mails come; one that somebody awaits does not where MOST_WAITING do.
   * `maySend`: as the Mailer's. `retired`: the pool was before it was the mail's turn, and nothing of the mail has left.
   */
  send(
    message: MailMessage & { messageId: string },
    limit: TimeLimit,
    maySend?: () => boolean,
  ): Promise<SendResult | { kind: "retired" }>;
  /** Takes no new mail, nor those that wait; closes its connections once the mails in flight are through. */
  retire(): void;
  /** Closes now; mails in flight fail. */
  close(): void;
}

/**
 * Mails that wait, in all, when one more is awaited. Each keeps its text in memory. Ten connections bring about as
 * many to a server that takes a second for each, before the time of those that wait is over: what came after them
 * would wait in vain. Jobs' mails are not refused: their worker starts a few at a time.
 */
const MOST_WAITING = 500;

/** Below the shortest common idle limits of servers, so that it is we who close. */
const IDLE_TIMEOUT = 30_000;

/** Mails that get through before a server that had too many connections is tried with one more. */
const BEFORE_ONE_MORE = 50;
/** The party of mails that the server sent away: they get every other turn, since their time is running. */
const SENT_AWAY = "sent away";

export function createTransportPool(options: {
  account: string;
  settings: SmtpSettings;
  dial: Dial;
  ehloName: string | undefined;
  connections: number;
}): TransportPool {
  const { settings } = options;
  const secrets = secretsOf(settings);
  let open = 0;
  const dial: Dial = async (request) => {
    const socket = await options.dial(request);
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
    return socket;
  };
  const pool = new SMTPPool({
    ...smtpOptions({ ...options, dial }),
    maxConnections: options.connections,
    // A requeued mail could go out twice; the one safe case is handled below.
    maxRequeues: 0,
    idleTimeout: IDLE_TIMEOUT,
  });

  // A mail that waited in nodemailer's own queue would have its time run out there.
  const turns = createServerTurns(options.connections);
  let inFlight = 0;
  let begun = 0;
  let retired = false;

  async function attempt(
    message: MailMessage & { messageId: string },
    signal: AbortSignal,
    maySend?: () => boolean,
  ): Promise<Attempt> {
    let ended = false;
    const through = turns.through;
    try {
      if (signal.aborted) throw unsent(signal.reason);
      const mail = new MailComposer(mailOptions(message, settings.from)).compile();
      watchReading(mail, {
        mayContinue: () => {
          if (maySend?.() === false) throw new Error("the claim was lost before the mail was sent");
        },
        onEnd: () => {
          ended = true;
        },
      });
      const [refused, ...more] = await sendThrough(pool, mail, signal);
      if (refused !== undefined) return partlyRefused([refused, ...more], secrets);
      return { kind: "accepted", messageId: message.messageId };
    } catch (error) {
      // The account's rules could not be read to check the server: no mail has left.
      if (error instanceof DependencyUnavailable) throw error;
      const failure = smtpFailure({ error, bodyEnded: ended, secrets });
      if (!signal.aborted && !ended && closedWhileIdle(error))
        return { kind: "stale", failure: CLOSED_AGAIN };
      if (!signal.aborted && !failure.outcomeUnknown && error instanceof OutOfStep)
        return { kind: "stale", failure };
      const crowded = tooMany(error, ended) || (notGreeted(error) && turns.through > through);
      return crowded ? { kind: "crowded", failure } : failure;
    }
  }

  /** Each of the connections may have been closed meanwhile, or have brought all the mails that the server takes of one. */
  async function inTurn(...mail: Parameters<typeof attempt>): Promise<Attempt> {
    for (let left = Math.max(1, open); ; left -= 1) {
      const ended = await attempt(...mail);
      if (ended.kind !== "stale" || left === 0) return ended;
    }
  }

  return {
    revision: settings.revision,
    from: settings.from,
    send: async (message, { signal, awaited, begin }, maySend) => {
      if (awaited && turns.waiting() >= MOST_WAITING) return QUEUE_FULL;
      let sentAway: MailFailure | undefined;
      for (;;) {
        if (!(await turns.take(signal, sentAway && SENT_AWAY))) {
          if (!signal.aborted) return { kind: "retired" };
          if (sentAway) return { ...sentAway, withdrawn: true };
          return smtpFailure({ error: unsent(signal.reason), bodyEnded: false, secrets });
        }
        if (retired) {
          // Between its turn and here.
          turns.done();
          return { kind: "retired" };
        }
        inFlight += 1;
        begun += 1;
        const alone = inFlight === 1 ? begun : undefined;
        sentAway = undefined;
        try {
          begin();
          const ended = await inTurn(message, signal, maySend);
          if (ended.kind === "stale") return ended.failure;
          if (ended.kind === "accepted") turns.gotThrough();
          if (ended.kind !== "crowded") return ended;
          // With none beside it, from its beginning to here, it was not one too many.
          if (alone === begun || signal.aborted) return ended.failure;
          sentAway = ended.failure;
        } finally {
          inFlight -= 1;
          if (sentAway) turns.withhold();
          else turns.done();
          if (retired && inFlight === 0) pool.close();
        }
      }
    },
    retire: () => {
      retired = true;
      turns.close();
      if (inFlight === 0) pool.close();
    },
    close: () => {
      retired = true;
      turns.close();
      pool.close({ force: true });
    },
  };
}

/** As many at a time as there are connections, or fewer once the server takes fewer. */
function createServerTurns(connections: number) {
  const turns = createTurns({ atOnce: connections });
  let through = 0;
  /** Turns that nobody gets, and how many mails had got through when that was changed last. */
  let withheld = 0;
  let changedAt = 0;
  return {
    ...turns,
    /** Mails that got through. */
    get through() {
      return through;
    },
    /** In place of `done`: it was one too many. One is left, for those who wait. */
    withhold(): void {
      changedAt = through;
      if (withheld < connections - 1) withheld += 1;
      else turns.done();
    },
    gotThrough(): void {
      through += 1;
      if (withheld === 0 || through - changedAt < BEFORE_ONE_MORE) return;
      changedAt = through;
      withheld -= 1;
      turns.done();
    },
  };
}

const CLOSED_AGAIN: SendResult = {
  kind: "failed",
  error: "SMTP server: connection closed before the mail was sent",
  retryable: true,
  outcomeUnknown: false,
  serverFault: true,
};

const QUEUE_FULL: SendResult = {
  kind: "failed",
  error:
    "too many mails wait for the account's SMTP server: send fewer at a time, or try again later",
  retryable: true,
  outcomeUnknown: false,
  serverFault: false,
  queueFull: true,
};

/** Why a mail was ended before anything was done for it. */
function unsent(reason: unknown): Error {
  if (reason instanceof ServerBusy) return reason;
  // As nodemailer calls it.
  return Object.assign(new Error("aborted"), { code: "EABORT" });
}

/**
 * Resolves with the errors of refused recipients, when others were taken.
 * Without nodemailer's Mail around the pool: its plugins, defaults and lists are nothing that we use.
 */
async function sendThrough(
  pool: SMTPPool,
  message: MimeNode,
  signal: AbortSignal,
): Promise<readonly NodemailerError[]> {
  // All that the pool reads of a mail.
  const mail = { message, data: { signal } } satisfies Pick<PooledMail, "message" | "data">;
  return new Promise((resolve, reject) => {
    pool.send(mail as PooledMail<SMTPPool.SentMessageInfo>, (error, info) => {
      if (error) reject(error);
      else resolve(info?.rejectedErrors ?? []);
    });
  });
}

/**
 * The connection was closed by the server before a byte of the mail was read: nodemailer would requeue
 * (and with maxRequeues 0 fails with an error that belongs to no command). Sending again is safe.
 */
function closedWhileIdle(error: unknown): boolean {
  const { code, command, responseCode } = readFields(error);
  return code === "ECONNECTION" && command === undefined && responseCode === undefined;
}

/**
 * "Closing transmission channel" (RFC 5321, 4.2.3) is what servers say to one connection too many, and Microsoft 365
 * says 432 of it once it has read a mail. 421 that late could be anything.
 */
function tooMany(error: unknown, bodyEnded: boolean): boolean {
  const { responseCode } = readFields(error);
  return responseCode === 432 || (responseCode === 421 && !bodyEnded);
}

/**
 * Where all processes of a server are busy, as Postfix has them, the system takes a connection and nobody greets it. That
 * was one too many if other mails got through meanwhile: the server is at work.
 */
function notGreeted(error: unknown): boolean {
  return error instanceof Error && "timeoutType" in error && error.timeoutType === GREETING;
}

/** nodemailer's name for what was waited for. */
const GREETING = "GREETING_TIMEOUT";
