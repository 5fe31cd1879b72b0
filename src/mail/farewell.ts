import type { Writable } from "node:stream";
import { allConnections, ASKED, SOCKET, UNDER_WAY, type Asking } from "./smtp-connection.ts";

/** nodemailer's name for the end of a connection. */
const CLOSE = "close";

interface Conversation extends Asking {
  [CLOSE]: (this: Conversation) => void;
  readonly [SOCKET]: Writable | false | undefined;
  /** `connected` once it has been greeted. */
  readonly stage: string;
  /** Its handshake for TLS is under way. */
  readonly upgrading: boolean;
  /** False before the first. */
  readonly lastServerResponse: string | false;
}

/**
 * nodemailer closes a connection that has brought its share of mails, or whose pool ends, without a word, which servers log
 * as lost (RFC 5321, 4.1.1.10). Here QUIT goes ahead of the end where nothing is under way. Nobody waits for the answer.
 */
export function sayQuit(): void {
  const connection = allConnections<Conversation>(
    [CLOSE],
    "nodemailer closes in another way: QUIT must be said anew",
  );
  const { [CLOSE]: close } = connection;
  connection[CLOSE] = function () {
    const { [SOCKET]: socket } = this;
    if (socket && socket.writable && listens(this)) socket.write("QUIT\r\n");
    close.call(this);
  };
}

/** 221 and 421: the server has said that it closes (RFC 5321, 4.2.3). */
function listens(conversation: Conversation): boolean {
  const { stage, upgrading, lastServerResponse } = conversation;
  if (stage !== "connected" || upgrading || conversation[UNDER_WAY]) return false;
  return conversation[ASKED].length === 0 && !/^[24]21/.test(lastServerResponse || "");
}
