import { connectionPrototype, END, hangUp, type Endable } from "./smtp-connection.ts";

/** nodemailer's method for the answer to MAIL FROM. */
const AFTER_SENDER = "_actionMAIL";

interface Conversation extends Endable {
  [AFTER_SENDER]: (this: Conversation, reply: string, done: unknown) => unknown;
}

/**
 * A server that takes only so many mails over a connection says 421 and closes it, or, like OpenSMTPD, answers the
 * next MAIL FROM with another 4yz and keeps the connection open. nodemailer would keep using that, and all later
 * mails would be refused. So a connection over which a mail has begun before is closed when it gets a 4yz for MAIL
 * FROM: nothing of this mail has been sent, and it goes out over another connection. A 4yz on a new connection
 * counts as an answer about the mail.
 */
export function closeExhaustedConnections(): void {
  const connection = connectionPrototype<Conversation>(
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
