import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NotSent, post, TimedOut, type PostRequest } from "../../../src/delivery/http-post.ts";
import { receiverUrl } from "../../../src/delivery/receiver-url.ts";
import { ReceiverConnection } from "../../../src/delivery/receiver-connection.ts";
import {
  createReceiverConnections,
  type ReceiverConnections,
} from "../../../src/delivery/receiver-connections.ts";
import { headerLine } from "../../../src/delivery/request-text.ts";
import { until } from "../../until.ts";

let server: Server;
let origin: string;
let sockets: Set<Socket>;
/** What the receiver does with each chunk. */
let onData: (socket: Socket, piece: string) => void;
let opened: number;
let dial: () => Promise<Socket>;
let connections: ReceiverConnections;

beforeEach(async () => {
  [opened, sockets] = [0, new Set()];
  server = createServer((socket) => {
    opened += 1;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (piece) => {
      onData(socket, piece.toString("latin1"));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  origin = `http://127.0.0.1:${port}`;
  dial = async () => {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    return socket;
  };
  connections = createReceiverConnections({
    dial: () => dial(),
    // Time stands still, so that no connection is idle for long, however busy the machine is.
    monotonic: () => 0,
  });
});
afterEach(async () => {
  await connections.close();
  for (const socket of sockets) socket.destroy();
  server.close();
});

function call(change: Partial<PostRequest> = {}, to = origin) {
  return post({
    take: () => connections.take("a", to, 5_000),
    url: receiverUrl(to),
    headers: "",
    body: "{}",
    signal: new AbortController().signal,
    timeoutMs: 5_000,
    maySend: () => true,
    ...change,
  });
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const answer = (text: string) => (socket: Socket) => {
  socket.write(text, "latin1");
};
const allClosed = () => until("all are closed", () => sockets.size === 0);

test.each([
  { body: '{"a":1}', length: 7, bytes: '{"a":1}' },
  { body: "", length: 0, bytes: "" },
  { body: "\u00e9\u{1f600}", length: 6, bytes: "\xc3\xa9\xf0\x9f\x98\x80" },
  { body: "\ud800", length: 3, bytes: "\xef\xbf\xbd" },
])("the bytes of a call whose body is $length long", async ({ body, length, bytes }) => {
  let received = "";
  onData = (socket, piece) => {
    received += piece;
    if (received.endsWith(`\r\n\r\n${bytes}`)) socket.write(OK);
  };
  const url = receiverUrl(`${origin}/a%20b?c=d&\u00e9#e`);
  const headers = headerLine("Content-Type", "application/json") + headerLine("X-A", "caf\xe9\t");
  await call({ url, body, headers });
  expect(received).toBe(
    `POST /a%20b?c=d&%C3%A9 HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n` +
      `Content-Type: application/json\r\nX-A: caf\xe9\t\r\ncontent-length: ${length}\r\n\r\n${bytes}`,
  );
});

test("a connection whose receiver closes it behind an answer, unsaid, is not used again", async () => {
  onData = (socket) => {
    socket.end(OK);
  };
  for (let n = 1; n <= 5; n += 1) {
    expect(await call()).toMatchObject({ status: 200 });
    expect(opened).toBe(n);
  }
});

test("a warm connection is there at once, and one whose answer has just come is waited for", async () => {
  onData = answer(OK);
  await call();
  const waited = connections.take("a", origin, 5_000);
  expect(waited).toBeInstanceOf(Promise);
  (await waited).release(true);
  await turn();
  await turn();
  const warm = connections.take("a", origin, 5_000);
  expect(warm).toBeInstanceOf(ReceiverConnection);
  expect(warm).toBe(await waited);
  (await warm).release(true);
  expect(opened).toBe(1);
  // However many are released in one turn.
  const others = await Promise.all([1, 2].map(async () => connections.take("a", origin, 5_000)));
  for (const other of others) other.release(true);
  await turn();
  const early = connections.take("a", origin, 5_000);
  expect(early).toBeInstanceOf(Promise);
  (await early).release(true);
});

test("an answer before the request has been read counts, and the connection is not used again", async () => {
  onData = (socket) => {
    socket.pause();
    socket.write(OK);
  };
  const body = "x".repeat(16 * 1024 * 1024);
  expect(await call({ body })).toMatchObject({ status: 200 });
  onData = answer(OK);
  expect(await call()).toMatchObject({ status: 200 });
  expect(opened).toBe(2);
});

test("an answer of a receiver that is gone before all of the request was written counts", async () => {
  const connection = await connections.take("a", origin, 5_000);
  await until("the receiver has it", () => sockets.size === 1);
  for (const socket of sockets) {
    socket.write("HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n");
    socket.resetAndDestroy();
  }
  // Both in the same turn: the write fails, and the answer has arrived but has not been read.
  const called = call({ take: () => connection });
  expect(await called).toEqual({ status: 503, retryAfter: "120" });
  expect(connection.gone).toBe(true);
});

test("an answer behind an answer, at once or later, is nobody's", async () => {
  onData = answer(`${OK}HTTP/1.1 500 No\r\n\r\n`);
  expect(await call()).toMatchObject({ status: 200 });
  await allClosed();
  onData = answer(OK);
  expect(await call()).toMatchObject({ status: 200 });
  const before = performance.now();
  for (const socket of sockets) socket.write("HTTP/1.1 500 No\r\n\r\n");
  await allClosed();
  // It is closed at once, not because it is idle.
  expect(performance.now() - before).toBeLessThan(3_000);
  expect(await call()).toMatchObject({ status: 200 });
  expect(opened).toBe(3);
});

test.each([
  { says: "timeout=2, which leaves no time", header: "Keep-Alive: timeout=2\r\n", opens: 2 },
  { says: "timeout=60", header: "Keep-Alive: timeout=60\r\n", opens: 1 },
  { says: "close", header: "Connection: close\r\n", opens: 2 },
])("a receiver that says $says", async ({ header, opens }) => {
  onData = answer(`HTTP/1.1 200 OK\r\n${header}Content-Length: 0\r\n\r\n`);
  await call();
  await call();
  expect(opened).toBe(opens);
});

test.each([
  { says: "nothing", header: "", kept: 4_000 },
  { says: "timeout=5", header: "Keep-Alive: timeout=5\r\n", kept: 3_000 },
  { says: "timeout=32", header: "Keep-Alive: timeout=32\r\n", kept: 30_000 },
  { says: "timeout=999999999", header: "Keep-Alive: timeout=999999999\r\n", kept: 30_000 },
])("of a receiver that says $says a connection is kept for $kept ms", async ({ header, kept }) => {
  const direct = dial;
  let own: Socket | undefined;
  dial = async () => (own = await direct());
  // The last answer counts, also one that says nothing.
  for (const lines of ["Keep-Alive: timeout=10\r\n", header]) {
    onData = answer(`HTTP/1.1 200 OK\r\n${lines}Content-Length: 0\r\n\r\n`);
    await call();
  }
  expect(opened).toBe(1);
  expect(own?.timeout).toBe(kept);
});

test("a connection is closed 2 s before its receiver would close it, counted from the last answer", async () => {
  const kept = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=3\r\nContent-Length: 0\r\n\r\n";
  onData = answer(kept);
  await call();
  // The call takes longer than an idle connection is kept.
  onData = (socket) => setTimeout(() => socket.write(kept), 1_300);
  await call();
  expect(opened).toBe(1);
  const before = performance.now();
  await allClosed();
  const after = performance.now() - before;
  // Otherwise it would be kept for 4 s.
  expect(after).toBeGreaterThan(900);
  expect(after).toBeLessThan(3_000);
});

test.each<{ does: string; onRequest: (socket: Socket) => void; outcome: object }>([
  {
    does: "closes without a word",
    onRequest: (socket) => socket.end(),
    outcome: { code: "CONNECTION_CLOSED" },
  },
  {
    does: "closes in its head",
    onRequest: (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-"),
    outcome: { code: "CONNECTION_CLOSED" },
  },
  {
    does: "resets",
    onRequest: (socket) => socket.resetAndDestroy(),
    outcome: { code: "ECONNRESET" },
  },
  {
    does: "speaks another protocol without ending a line",
    onRequest: answer("220 "),
    outcome: { code: "ANSWER_MALFORMED" },
  },
])("a receiver that $does", async ({ onRequest, outcome }) => {
  let calls = 0;
  onData = (socket) => {
    calls += 1;
    onRequest(socket);
  };
  await expect(call()).rejects.toMatchObject(outcome);
  // A POST is sent only once.
  await allClosed();
  expect(calls).toBe(1);
});

test.each<{ does: string; onRequest: (socket: Socket) => void }>([
  {
    does: "ends its body by closing",
    onRequest: (socket) => socket.end("HTTP/1.1 202 OK\r\n\r\nok"),
  },
  {
    does: "closes in its body",
    onRequest: (socket) => socket.end("HTTP/1.1 202 OK\r\nContent-Length: 5\r\n\r\nok"),
  },
  {
    does: "has a fault in its body",
    onRequest: answer("HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n"),
  },
])("the status of one that $does counts", async ({ onRequest }) => {
  onData = onRequest;
  expect(await call()).toEqual({ status: 202, retryAfter: null });
  await allClosed();
});

test.each([
  { of: "large pieces", piece: "x".repeat(65_536), head: "Content-Length: 999999999999" },
  { of: "chunks of a byte", piece: "1\r\nx\r\n".repeat(500), head: "Transfer-Encoding: chunked" },
  { of: "trailers", piece: "a:b\r\n".repeat(500), head: "Transfer-Encoding: chunked\r\n\r\n0" },
])("a body without end, of $of, is not read for long", async ({ piece, head }) => {
  onData = (socket) => {
    socket.write(`HTTP/1.1 202 OK\r\n${head}\r\n${head.endsWith("0") ? "" : "\r\n"}`);
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece));
      socket.once("drain", more);
    };
    more();
  };
  const before = performance.now();
  expect(await call()).toMatchObject({ status: 202 });
  // Otherwise the end of an answer is waited for up to 5 s.
  expect(performance.now() - before).toBeLessThan(3_000);
  await allClosed();
});

test.each([
  { bytes: 60_000, opens: 1 },
  { bytes: 200_000, opens: 2 },
])("a body of $bytes bytes: two calls open $opens", async ({ bytes, opens }) => {
  onData = answer(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n${"x".repeat(bytes)}`);
  await call();
  await call();
  expect(opened).toBe(opens);
});

test("of an answer that comes in pieces no timer is left", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const direct = dial;
    const caller = Promise.withResolvers<Socket>();
    dial = async () => {
      const socket = await direct();
      caller.resolve(socket);
      return socket;
    };
    const asked = Promise.withResolvers<Socket>();
    onData = asked.resolve;
    const called = call();
    const [socket, own] = await Promise.all([asked.promise, caller.promise]);
    // The timers of the call and, from the status on, of its body.
    for (const [piece, timers] of [
      ["HTTP/1.1 20", 1],
      ["0 OK\r\nContent-Length: 3\r\n\r\n", 2],
      ["a", 2],
      ["b", 2],
    ] as const) {
      const before = own.bytesRead;
      socket.write(piece);
      await until("the piece has been read", () => own.bytesRead === before + piece.length);
      expect(vi.getTimerCount()).toBe(timers);
    }
    socket.write("c");
    expect(await called).toMatchObject({ status: 200 });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test.each([
  { ends: "given up", error: NotSent },
  { ends: "out of time", error: TimedOut },
])("a call that is $ends while it waits for its connection closes it", async ({ ends, error }) => {
  const wanted = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const direct = dial;
  dial = async () => {
    await wanted.promise;
    const socket = await direct();
    arrived.resolve();
    return socket;
  };
  const ending = new AbortController();
  let received = "";
  onData = (_socket, piece) => {
    received += piece;
  };
  const timeoutMs = ends === "out of time" ? 50 : 5_000;
  const called = call({ signal: ending.signal, timeoutMs });
  if (ends === "given up") ending.abort();
  await expect(called).rejects.toThrow(error);
  wanted.resolve();
  await arrived.promise;
  const before = performance.now();
  await until("it was opened and is closed", () => opened === 1 && sockets.size === 0);
  // It is closed at once, not because it is idle.
  expect(performance.now() - before).toBeLessThan(3_000);
  expect(received).toBe("");
});

test("a call that is given up before it begins takes no connection", async () => {
  const take = vi.fn(() => connections.take("a", origin, 5_000));
  await expect(call({ take, signal: AbortSignal.abort() })).rejects.toThrow(NotSent);
  expect(take).not.toHaveBeenCalled();
});

test("a call that may not be made any more closes its connection, and nothing of it leaves", async () => {
  let received = "";
  onData = (_socket, piece) => {
    received += piece;
  };
  const before = performance.now();
  await expect(call({ maySend: () => false })).rejects.toThrow(NotSent);
  await until("it was opened and is closed", () => opened === 1 && sockets.size === 0);
  // It is closed at once, not because it is idle.
  expect(performance.now() - before).toBeLessThan(3_000);
  expect(received).toBe("");
});

test("a connection that is closed before it is a caller's is no use, and says so at once", async () => {
  const direct = dial;
  dial = async () => {
    const socket = await direct();
    socket.destroy();
    await once(socket, "close");
    return socket;
  };
  await expect(call()).rejects.toThrow("the connection was closed");
});

test("a TLS handshake that does not end is over with its call", async () => {
  onData = () => undefined;
  const to = origin.replace("http:", "https:");
  const take = () => connections.take("a", to, 100);
  const before = performance.now();
  await expect(call({ take, timeoutMs: 100 }, to)).rejects.toThrow(TimedOut);
  await allClosed();
  // The limit of a TLS handshake is 10 s.
  expect(performance.now() - before).toBeLessThan(5_000);
});

test("calls that are under way when all is closed fail, and nothing is dialled for later", async () => {
  const asked = Promise.withResolvers<void>();
  onData = () => {
    asked.resolve();
  };
  const failing = call();
  await asked.promise;
  const slow = Promise.withResolvers<void>();
  const direct = dial;
  dial = async () => {
    await slow.promise;
    return direct();
  };
  const late = call();
  const closed = connections.close();
  await expect(failing).rejects.toThrow("the connection was closed");
  await closed;
  slow.resolve();
  await expect(late).rejects.toThrow("connections are not wanted any more");
  await allClosed();
});
