import {
  connectionPrototype,
  ASKED,
  END,
  hangUp,
  UNDER_WAY,
  WAITING,
  type Asking,
  type Endable,
} from "./smtp-connection.ts";

/**
 * A server has sent a reply that was not asked for: its next reply would be taken for the answer to a later
 * command.
 */
export class RepliesOutOfSync extends Error {
  override name = "RepliesOutOfSync";
  /** It answered the message before its end, or with something that is no answer: it may have taken the mail. */
  readonly outcomeUnknown: boolean;
  constructor({ outcomeUnknown }: { outcomeUnknown: boolean }) {
    super("the SMTP server says something else than what it is asked");
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** nodemailer's methods that handle replies, and that send a message. */
const ANSWER = "_processResponse";
const AFTER_DATA = "_actionDATA";
const SEND_MESSAGE = "_createSendStream";
const AFTER_MESSAGE = "_actionSMTPStream";
const UPGRADE = "_actionSTARTTLS";

interface Conversation extends Asking, Endable {
  [ANSWER]: (this: Conversation) => unknown;
  [AFTER_DATA]: (this: Conversation, reply: string, done: unknown) => unknown;
  [SEND_MESSAGE]: (this: Conversation, done: unknown) => unknown;
  [AFTER_MESSAGE]: (this: Conversation, reply: string, done: unknown) => unknown;
  readonly [WAITING]: readonly string[];
  readonly [UPGRADE]: unknown;
}

/**
 * nodemailer takes each reply for the answer to the oldest command that has none. A server that says 250 twice is
 * one reply ahead from then on: when it refuses a recipient, a mail counts as accepted, or when it takes a mail,
 * that one counts as failed and is sent again. Such a connection is closed:
 *
 * - when there are more replies than commands. But the answer to a message that was sent to its end still counts.
 * - when DATA gets a 2yz answer, which nodemailer would accept in place of 354: it may be a surplus reply.
 * - when a message is answered before its end, or by a reply that is no answer to it. A refusal before the end
 *   counts: the server does not take a message without its end. But the next command would be read as a part of it.
 */
export function keepRepliesInSync(): void {
  const connection = connectionPrototype<Conversation>(
    [ANSWER, AFTER_DATA, SEND_MESSAGE, AFTER_MESSAGE, END],
    "nodemailer answers in another way: it must be kept in step anew",
  );
  const {
    [ANSWER]: answer,
    [AFTER_DATA]: afterData,
    [SEND_MESSAGE]: sendMessage,
    [AFTER_MESSAGE]: afterMessage,
  } = connection;
  /** Conversations whose message has not been answered. */
  const sending = new WeakSet<Conversation>();

  const giveUp = (on: Conversation, outcomeUnknown = false): void => {
    hangUp(on, new RepliesOutOfSync({ outcomeUnknown }), "EPROTOCOL");
  };

  connection[ANSWER] = function () {
    if (!saysMore(this)) return answer.call(this);
    if (sending.has(this)) answer.call(this);
    return giveUp(this);
  };
  connection[AFTER_DATA] = function (reply, done) {
    if (reply.startsWith("2")) giveUp(this);
    else afterData.call(this, reply, done);
  };
  connection[SEND_MESSAGE] = function (done) {
    sending.add(this);
    return sendMessage.call(this, done);
  };
  connection[AFTER_MESSAGE] = function (reply, done) {
    sending.delete(this);
    const beforeEnd = Boolean(this[UNDER_WAY]);
    const taken = reply.startsWith("2");
    const refused = reply.startsWith("4") || reply.startsWith("5");
    if (refused || (taken && !beforeEnd)) afterMessage.call(this, reply, done);
    if (beforeEnd || (!refused && !taken)) giveUp(this, true);
  };
}

/**
 * Whether there are more replies than commands. Empty lines do not count, as for nodemailer; nor do replies before
 * a TLS handshake, which it discards; nor 421, which may come at any time (RFC 5321, 3.8).
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
