import type { Readable, Writable } from "node:stream";
import { allConnections, SOCKET } from "./smtp-connection.ts";

/** nodemailer's names for what brings a message to its server. */
const CREATE = "_createSendStream";

interface Sending {
  [CREATE]: (this: Sending, done: unknown) => Readable;
  [SOCKET]: Writable;
}

/**
 * nodemailer writes a message and the dot behind it one after the other: two packets, with TLS two records, of which
 * the second is three bytes long. Its writes are a quarter of what a mail takes of the program. Here, because only
 * nodemailer has the stream that goes through TLS.
 */
export function joinWrites(): void {
  const connection = allConnections<Sending>(
    [CREATE],
    "nodemailer sends in another way: its writes must be joined anew",
  );
  const { [CREATE]: create } = connection;
  connection[CREATE] = function (done) {
    const stream = create.call(this, done);
    joinPieces(stream, this[SOCKET]);
    return stream;
  };
}

/**
 * What a stream that is piped into a socket brings in one turn of the event loop is written together: at the stream's
 * end at once, so that nothing comes between the question whether the mail may be sent and its last byte.
 */
export function joinPieces(stream: Readable, socket: Writable): void {
  let held = false;
  const release = (): void => {
    if (!held) return;
    held = false;
    socket.uncork();
  };
  // Before the pipe's own listener, which writes.
  stream.prependListener("data", () => {
    if (held) return;
    held = true;
    socket.cork();
    // A socket that has taken enough says so, and it is to be emptied before more comes.
    setImmediate(release);
  });
  stream.once("end", release);
}
