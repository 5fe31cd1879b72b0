import type { Writable } from "node:stream";
import { connectionPrototype, ASKED, SOCKET, UNDER_WAY, type Asking } from "./smtp-connection.ts";

/** nodemailer's method that ends a connection. */
const CLOSE = "close";

interface Conversation extends Asking {
  [CLOSE]: (this: Conversation) => void;
  readonly [SOCKET]: Writable | false | undefined;
  /** `connected` once the server has greeted. */
  readonly stage: string;
  /** A TLS handshake is under way. */
  readonly upgrading: boolean;
  /** False before the first response. */
  readonly lastServerResponse: string | false;
}

/**
 * nodemailer closes a connection that has sent its share of mails, or whose pool ends, without QUIT (RFC 5321,
 * 4.1.1.10), which servers log as a lost connection. Here QUIT is sent first if nothing is under way, without
 * waiting for the answer.
 */
export function sendQuit(): void {
  const connection = connectionPrototype<Conversation>(
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

/** Whether the server waits for a command. After 221 and 421 it closes the connection (RFC 5321, 4.2.3). */
function listens(conversation: Conversation): boolean {
  const { stage, upgrading, lastServerResponse } = conversation;
  if (stage !== "connected" || upgrading || conversation[UNDER_WAY]) return false;
  return conversation[ASKED].length === 0 && !/^[24]21/.test(lastServerResponse || "");
}
