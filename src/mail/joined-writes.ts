import type { Readable, Writable } from "node:stream";
import { connectionPrototype, SOCKET } from "./smtp-connection.ts";

/** nodemailer's method that sends a message. */
const CREATE = "_createSendStream";

interface Sending {
  [CREATE]: (this: Sending, done: unknown) => Readable;
  [SOCKET]: Writable;
}

/**
 * nodemailer writes a message and the dot behind it separately: two packets, with TLS two records, the second of
 * three bytes. Writing is a quarter of the processor time of a mail. Patched in nodemailer's connection, because
 * only that has the stream that goes through TLS.
 */
export function joinWrites(): void {
  const connection = connectionPrototype<Sending>(
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
 * Writes together what a stream that is piped into a socket gives in one turn of the event loop. At the stream's
 * end the rest is written at once, so that nothing comes between the question whether the mail may be sent and its
 * last byte.
 */
export function joinPieces(stream: Readable, socket: Writable): void {
  let held = false;
  const release = (): void => {
    if (!held) return;
    held = false;
    socket.uncork();
  };
  // Must run before the pipe's own listener, which writes.
  stream.prependListener("data", () => {
    if (held) return;
    held = true;
    socket.cork();
    // Also when the stream pauses because the socket's buffer is full: that must be emptied before more comes.
    setImmediate(release);
  });
  stream.once("end", release);
}
