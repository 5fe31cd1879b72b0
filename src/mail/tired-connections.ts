import { allConnections, END, hangUp, type Endable } from "./smtp-connection.ts";

/** nodemailer's name for what it does with the answer to MAIL FROM. */
const AFTER_SENDER = "_actionMAIL";

interface Conversation extends Endable {
  [AFTER_SENDER]: (this: Conversation, reply: string, done: unknown) => unknown;
}

/**
 * A server that takes so many mails of a connection says so with 421 and closes it, or, as OpenSMTPD does, with another
 * 4yz to the next sender, and goes on listening. nodemailer keeps such a connection, and refused would be all that comes
 * after. One that has begun a mail before is closed where a sender is refused for now: of this mail nothing has left, it
 * goes out over another. What a server means is told by a connection that is new.
 */
export function closeTiredConnections(): void {
  const connection = allConnections<Conversation>(
    [AFTER_SENDER, END],
    "nodemailer begins mails in another way: tired connections must be found anew",
  );
  const { [AFTER_SENDER]: afterSender } = connection;
  const begun = new WeakSet<Conversation>();
  connection[AFTER_SENDER] = function (reply, done) {
    if (reply.startsWith("4") && begun.has(this))
      return hangUp(this, new Error("takes no more mails"), "ECONNECTION");
    if (reply.startsWith("2")) begun.add(this);
    return afterSender.call(this, reply, done);
  };
}
