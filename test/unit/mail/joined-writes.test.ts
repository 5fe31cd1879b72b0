import { PassThrough, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { joinPieces } from "../../../src/mail/joined-writes.ts";

/** Like a socket, it takes all that was held back at once, and records it with the turn of the event loop. */
function socket({ highWaterMark = 64 * 1024 } = {}) {
  const taken: string[] = [];
  const writable = new Writable({
    highWaterMark,
    write: (piece: Buffer, _encoding, done) => {
      taken.push(piece.toString());
      done();
    },
    writev: (pieces, done) => {
      taken.push(pieces.map(({ chunk }) => String(chunk)).join("|"));
      done();
    },
  });
  return { writable, taken };
}

function pipe(to: Writable): PassThrough {
  const stream = new PassThrough();
  stream.pipe(to, { end: false });
  joinPieces(stream, to);
  return stream;
}

test("a message and its end are one write, made when the end has come", async () => {
  const { writable, taken } = socket();
  const stream = pipe(writable);
  stream.write("message");
  stream.end(".");
  await finished(stream);
  expect(taken).toEqual(["message|."]);
});

test("what no end follows waits for nothing but the turn's", async () => {
  const { writable, taken } = socket();
  const stream = pipe(writable);
  stream.write("one");
  await setImmediate();
  await setImmediate();
  expect(taken).toEqual(["one"]);
  stream.end("two");
  await finished(stream);
  expect(taken).toEqual(["one", "two"]);
});

test("a socket that has taken enough is emptied, and the rest follows", async () => {
  const { writable, taken } = socket({ highWaterMark: 4 });
  const stream = pipe(writable);
  for (const piece of ["first", "second", "third"]) stream.write(piece);
  stream.end("last");
  await finished(stream);
  expect(taken.join("|")).toBe("first|second|third|last");
});

test("the next message on the same socket begins anew", async () => {
  const { writable, taken } = socket();
  for (const text of ["one", "two"]) {
    const stream = pipe(writable);
    stream.write(text);
    stream.end(".");
    await finished(stream);
    stream.unpipe(writable);
  }
  writable.write("QUIT");
  expect(taken).toEqual(["one|.", "two|.", "QUIT"]);
});

test("a message that breaks off lets the socket go", async () => {
  const { writable, taken } = socket();
  const stream = pipe(writable);
  stream.write("half");
  stream.destroy();
  await setImmediate();
  await setImmediate();
  writable.write("RSET");
  expect(taken).toEqual(["half", "RSET"]);
});
