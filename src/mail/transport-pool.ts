import type { NodemailerError } from "nodemailer";
import MailComposer from "nodemailer/lib/mail-composer";
import type { MailMessage as PooledMail } from "nodemailer/lib/mailer";
import type MimeNode from "nodemailer/lib/mime-node";
import SMTPPool from "nodemailer/lib/smtp-pool";
import type { SmtpSettings } from "../domain/account.ts";
import type { MailFailure, MailMessage, MailResult } from "../domain/mail.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { createFairSemaphore } from "../waiting/fair-semaphore.ts";
import type { Dial } from "../network/guarded-dial.ts";
import { RepliesOutOfSync } from "./reply-sync.ts";
import { watchReading } from "./message-stream.ts";
import { partlyRefused, readFields, secretsOf, ServerBusy, smtpFailure } from "./smtp-failure.ts";
import { mailOptions, smtpOptions } from "./smtp-options.ts";

export type SendResult = Exclude<MailResult, { kind: "unconfigured" }>;

/**
 * `stale`: the connection had been closed, or was out of step, and nothing was sent. `crowded`: the server did not
 * take the mail, perhaps only because we have other connections.
 */
type Attempt =
  SendResult | { kind: "stale"; failure: SendResult } | { kind: "crowded"; failure: MailFailure };

/** How long a mail may take. */
export interface TimeLimit {
  signal: AbortSignal;
  /** Somebody waits for an answer: waiting for a turn counts as part of the mail's time. */
  awaited: boolean;
  /** Called when it is the mail's turn, and its time begins. */
  begin: () => void;
}

/** Open connections to one account's SMTP server, by one revision of its settings. */
export interface TransportPool {
  revision: string;
  from: string;
  /**
   * Mails wait for their turn in the order in which they come; an `awaited` one is refused when MOST_WAITING wait
   * already. `maySend`: see `MailOptions`. `retired`: the pool was retired before it was the mail's turn; nothing
   * of it was sent.
   */
  send(
    message: MailMessage & { messageId: string },
    limit: TimeLimit,
    maySend?: () => boolean,
  ): Promise<SendResult | { kind: "retired" }>;
  /** Takes no new mails, and ends the waiting ones as `retired`; closes its connections after the mails in flight. */
  retire(): void;
  /** Closes now; mails in flight fail. */
  close(): void;
}

/**
 * Mails that may wait when an awaited one comes. Each keeps its text in memory. If a server takes a second for each
 * mail, ten connections send about so many before it is too late for a turn: further ones would wait in vain. Mails of
 * jobs are not refused, because their worker starts only a few at a time.
 */
const MOST_WAITING = 500;

/** Milliseconds; below the shortest common idle limits of servers, so that we close first. */
const IDLE_TIMEOUT = 30_000;

/** Mails that must get through before a server that had too many connections gets one more. */
const BEFORE_ONE_MORE = 50;
/** The party of mails that the server sent away. As a party they get every other turn, since their time is running. */
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
    // A requeued mail could be sent twice; the only safe case is handled by `attemptWhileStale`.
    maxRequeues: 0,
    idleTimeout: IDLE_TIMEOUT,
  });

  // Mails wait for a turn here, and not in nodemailer's own queue, where their time would run out.
  const turns = createServerTurns(options.connections);
  let inFlight = 0;
  /** How many turns have begun, ever. */
  let begun = 0;
  let retired = false;

  async function attempt(
    message: MailMessage & { messageId: string },
    signal: AbortSignal,
    maySend?: () => boolean,
  ): Promise<Attempt> {
    let bodyEnded = false;
    const through = turns.through;
    try {
      if (signal.aborted) throw unsent(signal.reason);
      const mail = new MailComposer(mailOptions(message, settings.from)).compile();
      watchReading(mail, {
        mayContinue: () => {
          if (maySend?.() === false) throw new Error("the claim was lost before the mail was sent");
        },
        onEnd: () => {
          bodyEnded = true;
        },
      });
      const [refused, ...more] = await sendThrough(pool, mail, signal);
      if (refused !== undefined) return partlyRefused([refused, ...more], secrets);
      return { kind: "accepted", messageId: message.messageId };
    } catch (error) {
      // The account's rules could not be read to check the server: nothing was sent.
      if (error instanceof DependencyUnavailable) throw error;
      const failure = smtpFailure({ error, bodyEnded, secrets });
      if (!signal.aborted && !bodyEnded && closedWhileIdle(error))
        return { kind: "stale", failure: CLOSED_AGAIN };
      if (!signal.aborted && !failure.outcomeUnknown && error instanceof RepliesOutOfSync)
        return { kind: "stale", failure };
      const crowded = tooMany(error, bodyEnded) || (notGreeted(error) && turns.through > through);
      return crowded ? { kind: "crowded", failure } : failure;
    }
  }

  /**
   * Tries again while connections are stale: each open one may be, closed by the server or after as many mails as
   * it takes.
   */
  async function attemptWhileStale(...mail: Parameters<typeof attempt>): Promise<Attempt> {
    for (let left = Math.max(1, open); ; left -= 1) {
      const result = await attempt(...mail);
      if (result.kind !== "stale" || left === 0) return result;
    }
  }

  return {
    revision: settings.revision,
    from: settings.from,
    send: async (message, { signal, awaited, begin }, maySend) => {
      if (awaited && turns.waiting() >= MOST_WAITING) return QUEUE_FULL;
      let sentAway: MailFailure | undefined;
      for (;;) {
        if (!(await turns.acquire(signal, sentAway && SENT_AWAY))) {
          if (!signal.aborted) return { kind: "retired" };
          if (sentAway) return { ...sentAway, withdrawn: true };
          return smtpFailure({ error: unsent(signal.reason), bodyEnded: false, secrets });
        }
        // After the turn was given. Nobody else gets it: there are no more turns.
        if (retired) return { kind: "retired" };
        inFlight += 1;
        begun += 1;
        /** Equal to `begun` for as long as no other mail has begun since. */
        const begunAlone = inFlight === 1 ? begun : undefined;
        sentAway = undefined;
        try {
          begin();
          const result = await attemptWhileStale(message, signal, maySend);
          if (result.kind === "stale") return result.failure;
          if (result.kind === "accepted") turns.gotThrough();
          if (result.kind !== "crowded") return result;
          // No other mail was in flight from its beginning to here: so it was not one connection too many.
          if (begunAlone === begun || signal.aborted) return result.failure;
          sentAway = result.failure;
        } finally {
          inFlight -= 1;
          if (sentAway) turns.withhold();
          else turns.release();
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

/** As many turns at a time as there are connections, or fewer once the server accepts fewer. */
function createServerTurns(connections: number) {
  const turns = createFairSemaphore({ atOnce: connections });
  let through = 0;
  /** Turns that nobody gets, and the value of `through` when that last changed. */
  let withheld = 0;
  let changedAt = 0;
  return {
    ...turns,
    /** How many mails got through. */
    get through() {
      return through;
    },
    /** In place of `release`, after one connection too many: gives the turn to nobody. The last turn is never withheld. */
    withhold(): void {
      changedAt = through;
      if (withheld < connections - 1) withheld += 1;
      else turns.release();
    },
    gotThrough(): void {
      through += 1;
      if (withheld === 0 || through - changedAt < BEFORE_ONE_MORE) return;
      changedAt = through;
      withheld -= 1;
      turns.release();
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

/** The error of a mail that ended before anything of it was sent. */
function unsent(reason: unknown): Error {
  if (reason instanceof ServerBusy) return reason;
  // As nodemailer makes it.
  return Object.assign(new Error("aborted", { cause: reason }), { code: "EABORT" });
}

/**
 * Resolves with the errors of refused recipients, when others were accepted.
 * Uses the pool without nodemailer's Mail around it: we do not need its plugins, defaults and lists.
 */
async function sendThrough(
  pool: SMTPPool,
  message: MimeNode,
  signal: AbortSignal,
): Promise<readonly NodemailerError[]> {
  // The pool reads nothing else of a mail.
  const mail = { message, data: { signal } } satisfies Pick<PooledMail, "message" | "data">;
  return new Promise((resolve, reject) => {
    pool.send(mail as PooledMail<SMTPPool.SentMessageInfo>, (error, info) => {
      if (error) reject(error);
      else resolve(info?.rejectedErrors ?? []);
    });
  });
}

/**
 * The server closed the connection before a byte of the mail was read. nodemailer would requeue the mail; with
 * maxRequeues 0 it fails with an error that belongs to no command. Sending again is safe.
 */
function closedWhileIdle(error: unknown): boolean {
  const { code, command, responseCode } = readFields(error);
  return code === "ECONNECTION" && command === undefined && responseCode === undefined;
}

/**
 * Servers answer 421, "closing transmission channel" (RFC 5321, 4.2.3), to one connection too many; Microsoft 365
 * answers 432 once it has read a mail. After the body, 421 could mean anything.
 */
function tooMany(error: unknown, bodyEnded: boolean): boolean {
  const { responseCode } = readFields(error);
  return responseCode === 432 || (responseCode === 421 && !bodyEnded);
}

/**
 * When all processes of a server such as Postfix are busy, its system accepts a connection that nobody greets. If other
 * mails got through meanwhile, the server works, and this was one connection too many.
 */
function notGreeted(error: unknown): boolean {
  return error instanceof Error && "timeoutType" in error && error.timeoutType === GREETING;
}

/** nodemailer's name for a greeting that did not come in time. */
const GREETING = "GREETING_TIMEOUT";
