import SMTPConnection from "nodemailer/lib/smtp-connection";

/** nodemailer's names for what it does with the answer to MAIL FROM, and for the end of a connection. */
const AFTER_SENDER = "_actionMAIL";
const END = "_onError";

interface Conversation {
  [AFTER_SENDER]: (this: Conversation, reply: string, done: unknown) => unknown;
  [END]: (this: Conversation, error: Error, type: string, data: false, command: string) => void;
}

/**
 * A server that takes so many mails of a connection says so with 421 and closes it, or, as OpenSMTPD does, with another
 * 4yz to the next sender, and goes on listening. nodemailer keeps such a connection, and refused would be all that comes
 * after. One that has begun a mail before is closed where a sender is refused for now: of this mail nothing has left, it
 * goes out over another. What a server means is told by a connection that is new.
 */
export function closeTiredConnections(): void {
  const connection = SMTPConnection.prototype as unknown as Conversation;
  const known: Partial<Conversation> = connection;
  const afterSender = known[AFTER_SENDER];
  if (!afterSender || known[END] === undefined)
    throw new Error("nodemailer begins mails in another way: tired connections must be found anew");
  const begun = new WeakSet<Conversation>();
  connection[AFTER_SENDER] = function (reply, done) {
    if (reply.startsWith("4") && begun.has(this))
      return this[END](new Error("takes no more mails"), "ECONNECTION", false, "CONN");
    if (reply.startsWith("2")) begun.add(this);
    return afterSender.call(this, reply, done);
  };
}
