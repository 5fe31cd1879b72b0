import {
  allConnections,
  ASKED,
  END,
  hangUp,
  UNDER_WAY,
  WAITING,
  type Asking,
  type Endable,
} from "./smtp-connection.ts";

/** A server has said what nobody had asked for: what it says next is not the answer to what we say next. */
export class OutOfStep extends Error {
  override name = "OutOfStep";
  /** It answered the message before its end, or not at all: nobody knows what it has taken. */
  readonly outcomeUnknown: boolean;
  constructor({ outcomeUnknown }: { outcomeUnknown: boolean }) {
    super("the SMTP server says something else than what it is asked");
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** nodemailer's names for what a connection does with what its server says. */
const ANSWER = "_processResponse";
const AFTER_DATA = "_actionDATA";
const BRING = "_createSendStream";
const AFTER_MESSAGE = "_actionSMTPStream";
const UPGRADE = "_actionSTARTTLS";

interface Conversation extends Asking, Endable {
  [ANSWER]: (this: Conversation) => unknown;
  [AFTER_DATA]: (this: Conversation, reply: string, done: unknown) => unknown;
  [BRING]: (this: Conversation, done: unknown) => unknown;
  [AFTER_MESSAGE]: (this: Conversation, reply: string, done: unknown) => unknown;
  readonly [WAITING]: readonly string[];
  readonly [UPGRADE]: unknown;
}

/**
 * nodemailer takes each reply for the answer to the oldest command that has none. A server that says 250 twice is one
 * ahead from then on: it has refused a recipient, and another mail counts as accepted, or it has taken a mail that
 * counts as failed, and goes out again. Such a connection is closed:
 *
 * - where more replies are there than were asked for. What answers a message that was brought to its end counts.
 * - where DATA gets a positive answer other than 354, which nodemailer would take: too many may have come one by one.
 * - where a message is answered before its end, or by what is no answer to it. A refusal counts: what is brought no further
 *   is not taken; and what we said next would be a part of it.
 */
export function keepInStep(): void {
  const connection = allConnections<Conversation>(
    [ANSWER, AFTER_DATA, BRING, AFTER_MESSAGE, END],
    "nodemailer answers in another way: it must be kept in step anew",
  );
  const {
    [ANSWER]: answer,
    [AFTER_DATA]: afterData,
    [BRING]: bring,
    [AFTER_MESSAGE]: afterMessage,
  } = connection;
  /** Whose message has not been answered. */
  const brings = new WeakSet<Conversation>();

  const giveUp = (on: Conversation, outcomeUnknown = false): void => {
    hangUp(on, new OutOfStep({ outcomeUnknown }), "EPROTOCOL");
  };

  connection[ANSWER] = function () {
    if (!saysMore(this)) return answer.call(this);
    if (brings.has(this)) answer.call(this);
    return giveUp(this);
  };
  connection[AFTER_DATA] = function (reply, done) {
    if (reply.startsWith("2")) giveUp(this);
    else afterData.call(this, reply, done);
  };
  connection[BRING] = function (done) {
    brings.add(this);
    return bring.call(this, done);
  };
  connection[AFTER_MESSAGE] = function (reply, done) {
    brings.delete(this);
    const half = Boolean(this[UNDER_WAY]);
    const taken = reply.startsWith("2");
    const refused = reply.startsWith("4") || reply.startsWith("5");
    if (refused || (taken && !half)) afterMessage.call(this, reply, done);
    if (half || (!refused && !taken)) giveUp(this, true);
  };
}

/**
 * Empty lines are nothing to nodemailer, it forgets what came before a handshake, and 421 may come at any time (RFC 5321,
 * 3.8).
 */
function saysMore({
  [WAITING]: waiting,
  [ASKED]: asked,
  [UPGRADE]: upgrade,
}: Conversation): boolean {
  if (waiting.length <= asked.length || asked[0] === upgrade) return false;
  const replies = waiting.filter((reply) => reply.trim() !== "" && !/^421[ -]/.test(reply));
  return replies.length > asked.length;
}
