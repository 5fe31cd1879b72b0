import { connectionPrototype, WAITING } from "./smtp-connection.ts";

/** Far more replies than a server can have for what we send at a time. */
const MOST_WAITING = 1_000;

/** nodemailer's methods for bytes from the server, and for a reply that is too large. */
const RECEIVE = "_onData";
const HANG_UP = "_onResponseTooLarge";

interface Receiving {
  [RECEIVE]: (this: Receiving, chunk: Buffer) => void;
  [WAITING]: readonly string[];
  [HANG_UP]: (this: Receiving) => void;
}

/**
 * nodemailer bounds the size of a reply, but not how many replies wait. Empty lines do not count as replies: it
 * takes them off the front of an array, one in each turn of the loop. Some megabytes of them, from the mail server
 * of one account, would hold up the whole process for minutes. So a server that says that much is hung up on, as
 * for a reply that is too large. Patched in nodemailer's connection, because the pool makes connections itself, and
 * only they see what comes through TLS.
 */
export function boundReplies(): void {
  const connection = connectionPrototype<Receiving>(
    [RECEIVE, HANG_UP],
    "nodemailer receives in another way: its replies must be bounded anew",
  );
  const { [RECEIVE]: receive, [HANG_UP]: hangUp } = connection;
  connection[RECEIVE] = function (chunk) {
    receive.call(this, chunk);
    if (this[WAITING].length > MOST_WAITING) hangUp.call(this);
  };
}
