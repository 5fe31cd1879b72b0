import { allConnections, WAITING } from "./smtp-connection.ts";

/** Far more than a server has to say to what we send at a time. */
const MOST_WAITING = 1_000;

/** nodemailer's names for what a connection does with what comes from its server. */
const RECEIVE = "_onData";
const HANG_UP = "_onResponseTooLarge";

interface Receiving {
  [RECEIVE]: (this: Receiving, chunk: Buffer) => void;
  [WAITING]: readonly string[];
  [HANG_UP]: (this: Receiving) => void;
}

/**
 * nodemailer bounds the size of a reply, and not how many wait. Empty lines are none to it: it takes them off
 * the front of an array, one in each turn of the loop, and some megabytes of them, from the mail server of one
 * account, hold up the process with all others for minutes. A server that says so much is hung up on, as one
 * whose reply is too large. It is the only place for it: the pool makes its connections itself, and what comes
 * through TLS is seen by nobody else.
 */
export function boundReplies(): void {
  const connection = allConnections<Receiving>(
    [RECEIVE, HANG_UP],
    "nodemailer receives in another way: its replies must be bounded anew",
  );
  const { [RECEIVE]: receive, [HANG_UP]: hangUp } = connection;
  connection[RECEIVE] = function (chunk) {
    receive.call(this, chunk);
    if (this[WAITING].length > MOST_WAITING) hangUp.call(this);
  };
}
