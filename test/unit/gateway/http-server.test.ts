import { once } from "node:events";
import { Agent, request as send, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { timers } from "../../../cmd/system.ts";
import type { Timers } from "../../../src/domain/ports/clock.ts";
import { createHttpServer } from "../../../src/gateway/http-server.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { collectGarbage } from "../../collect-garbage.ts";

test("ends although callers keep their connections busy", { timeout: 10_000 }, async () => {
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  let answer: (() => void) | undefined;
  const { server, end } = createHttpServer({
    metrics,
    handle: (request, response) => {
      const done = () => response.end("ok");
      if (request.url === "/waits") answer = done;
      else done();
    },
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { port } = server.address() as AddressInfo;
  const get = async (path: string): Promise<IncomingMessage> => {
    const request = send({ agent, host: "127.0.0.1", port, path });
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    await once(response, "end");
    return response;
  };
  await get("/");

  const inFlight = get("/waits");
  await expect.poll(() => answer).toBeDefined();
  const ended = end(timers);
  // A request that comes on the same connection before the caller can know of the end.
  const next = get("/");
  answer?.();
  expect((await inFlight).statusCode).toBe(200);
  expect((await next).headers.connection).toBe("close");
  await ended;
  await expect(get("/")).rejects.toThrow("ECONNREFUSED");
  agent.destroy();
});

test("ends although a caller keeps its connection after the last answer", async () => {
  const asked = Promise.withResolvers<() => void>();
  const { socket, endServer } = await stubborn({
    handle: (_request, response) => asked.resolve(() => response.end("ok")),
  });
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const answer = await asked.promise;
  const ended = endServer(timers);
  answer();
  const [received] = (await once(socket, "data")) as [Buffer];
  expect(received.toString()).toMatch(/^HTTP\/1\.1 200 /);
  await ended;
  socket.destroy();
});

test("does not cut off an answer that its caller reads slowly", { timeout: 10_000 }, async () => {
  const bytes = Buffer.alloc(20 << 20, "x");
  const composed = Promise.withResolvers<void>();
  const { socket, endServer } = await stubborn({
    handle: (_request, response) => {
      response.end(bytes);
      composed.resolve();
    },
  });
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await composed.promise;
  const time = byHand();
  const ended = endServer(time.timers);
  time.pass(500);
  let read = 0;
  socket.on("data", (piece: Buffer) => (read += piece.length)).resume();
  await ended;
  expect(read).toBeGreaterThan(bytes.length);
  socket.destroy();
});

test("does not close an idle connection under a request", { timeout: 10_000 }, async () => {
  const { socket, endServer } = await stubborn({
    handle: (_request, response) => response.end("ok"),
  });
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(socket, "data");
  const ended = endServer(byHand().timers);
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const [received] = (await once(socket, "data")) as [Buffer];
  expect(received.toString()).toMatch(/^HTTP\/1\.1 200 [^]*Connection: close/);
  await ended;
  socket.destroy();
});

test.each([
  {
    what: "on a connection that was idle",
    before: "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    answered: /ok$/,
  },
  { what: "on one that was never used", before: "", answered: /^$/ },
])("answers a request that has arrived $what, but was not read in time", async (given) => {
  const { server, socket, endServer, received } = await stubborn({
    handle: (_request, response) => response.end("ok"),
  });
  await once(server, "connection");
  socket.write(given.before);
  await expect.poll(received).toMatch(given.answered);
  const time = byHand();
  const ended = endServer(time.timers);
  // As in a process that gets no processor: its timers are late, and run before it reads.
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  time.pass(500);
  await ended;
  await expect.poll(received).toMatch(/Connection: close\r\n[^]*ok$/);
  socket.destroy();
});

test.each([
  { what: "has been idle since its answer", requests: 1 },
  { what: "has never been used, as browsers open some ahead", requests: 0 },
])("ends although a connection $what", { timeout: 10_000 }, async ({ requests }) => {
  const { server, socket, endServer } = await stubborn({
    handle: (_request, response) => response.end("ok"),
  });
  await once(server, "connection");
  if (requests === 1) {
    socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await once(socket, "data");
  }
  const time = byHand();
  const ended = endServer(time.timers);
  expect(time.waits()).toEqual([500, 25_000]);
  time.pass(500);
  await ended;
  expect(time.waits()).toEqual([]);
  socket.destroy();
});

test(
  "ends although a caller never sends the rest of its request",
  { timeout: 10_000 },
  async () => {
    const asked = Promise.withResolvers<void>();
    const { server, end } = createHttpServer({
      metrics: createMetrics({ version: "test", nodeMetrics: false }),
      handle: () => asked.resolve(),
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    socket.write("POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    await asked.promise;
    const time = byHand();
    const ended = end(time.timers);
    time.pass(500);
    expect(time.waits()).toEqual([25_000]);
    time.pass(25_000);
    await ended;
    expect(time.waits()).toEqual([]);
    socket.destroy();
  },
);

test.each([
  { what: "an answer that has begun is cut off, with nothing of ours in it", paths: ["/begins"] },
  { what: "the same when another one came before it", paths: ["/", "/begins"] },
])("broken HTTP: $what", async ({ paths }) => {
  const { server } = createHttpServer({
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    handle: (request, response) => {
      if (request.url === "/begins")
        response.writeHead(200, { "Content-Length": 10 }).write("begun");
      else setImmediate(() => response.end("ok"));
    },
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let received = "";
  socket.on("error", () => undefined);
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString();
    if (received.endsWith("begun")) socket.write("nonsense\r\n\r\n");
  });
  socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join(""));
  await once(socket, "close");
  expect(received).toMatch(/begun$/);
  server.close();
});

test("broken HTTP: what comes behind whole requests takes no answer of theirs", async () => {
  const { server } = createHttpServer({
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    handle: (request, response) => {
      setImmediate(() => response.end(request.url));
    },
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let received = "";
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString();
  });
  const requests = ["/a", "/b"].map(
    (path) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`,
  );
  socket.write(`${requests.join("")}more than was said`);
  await once(socket, "close");
  const answers = received.split(/(?=HTTP\/1\.1 )/).map((text) => text.split("\r\n"));
  expect(answers.map((lines) => [lines[0], lines.at(-1)])).toEqual([
    ["HTTP/1.1 200 OK", "/a"],
    ["HTTP/1.1 200 OK", "/b"],
  ]);
  expect(answers[1]).toContain("Connection: close");
  server.close();
});

/** Texts that never become a request, and after which nothing is read. */
const NO_REQUESTS = ["nonsense\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\nmore"];

test.each(NO_REQUESTS)(
  "requests that wait for their answers are answered before: %j",
  async (text) => {
    const slow = Promise.withResolvers<() => void>();
    const { socket, connections, end } = await stubborn({
      handle: ({ url }, response) => {
        if (url === "/slow") slow.resolve(() => response.end("slow"));
        else response.end("fast");
      },
    });
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString();
    });
    socket.write(
      `GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /fast HTTP/1.1\r\nHost: x\r\n\r\n${text}`,
    );
    const answer = await slow.promise;
    setImmediate(answer);
    await once(socket, "end");
    expect(received).toMatch(/^HTTP\/1\.1 200 [^]*slowHTTP\/1\.1 200 [^]*fast$/);
    socket.end();
    await expect.poll(connections).toBe(0);
    end();
  },
);

/** Timers that fire when the test says so, each identified by its length. */
function byHand() {
  const waits = new Map<number, () => void>();
  const after: Timers["after"] = (ms, run) => {
    waits.set(ms, run);
    return { cancel: () => waits.delete(ms) };
  };
  return {
    timers: { after },
    waits: () => Array.from(waits.keys()),
    pass: (ms: number) => {
      const run = waits.get(ms);
      waits.delete(ms);
      run?.();
    },
  };
}

/** A server, and a connection to it whose client never closes its side. */
async function stubborn(
  options: Pick<Parameters<typeof createHttpServer>[0], "handle" | "stalledMs">,
) {
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const { server, end: endServer } = createHttpServer({ ...options, metrics });
  let read = 0;
  server.on("request", () => (read += 1));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => undefined);
  let received = "";
  return {
    server,
    endServer,
    metrics,
    socket,
    /** How many requests have come. */
    read: () => read,
    /** All that the client has read; it begins to read with the first call of this. */
    received: () => {
      if (socket.listenerCount("data") === 0)
        socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
      return received;
    },
    connections: () => promisify(server.getConnections.bind(server))(),
    end: () => {
      socket.destroy();
      server.close();
    },
  };
}

test.each(NO_REQUESTS)(
  "a client that is refused, and does not close, is let go: %j",
  async (text) => {
    const { socket, connections, end } = await stubborn({ handle: () => undefined });
    socket.write(text);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 4/);
    await expect.poll(connections).toBe(0);
    end();
  },
);

/** Requests one after the other, each with a path of its own. */
function requests(from: number, to: number): string {
  return Array.from(
    { length: to - from },
    (_, i) => `GET /${from + i} HTTP/1.1\r\nHost: a\r\n\r\n`,
  ).join("");
}

test("requests that come without waiting for answers are bounded, and those before the bound answered", async () => {
  const asked: (string | undefined)[] = [];
  const some = Promise.withResolvers<void>();
  const all = Promise.withResolvers<void>();
  const { read, socket, received, connections, end } = await stubborn({
    handle: async ({ url }, response) => {
      asked.push(url);
      await (asked.length <= 50 ? some : all).promise;
      response.end(url);
    },
  });
  socket.write(requests(0, 150));
  await expect.poll(read).toBe(150);
  some.resolve();
  await expect.poll(() => received().endsWith("/49")).toBe(true);
  // There is room again, but the connection will be closed before these can be answered.
  socket.write(requests(150, 160));
  await expect.poll(read).toBe(160);
  all.resolve();
  await expect.poll(received).toContain("send no more before");
  await expect.poll(connections).toBe(0);
  const paths = Array.from({ length: 100 }, (_, i) => `/${i}`);
  expect(asked).toEqual(paths);
  const answers = received().split(/(?=HTTP\/1\.1 )/);
  expect(answers.slice(0, 100).map((text) => text.split("\r\n").at(-1))).toEqual(paths);
  expect(answers[100]).toMatch(/^HTTP\/1\.1 429 [^]*Connection: close[^]*send no more before/);
  expect(answers).toHaveLength(101);
  end();
});

test("of a client that reads no answers one request is worked on, and the others in their turn", async () => {
  const answer = Buffer.alloc(50_000_000);
  const asked: (string | undefined)[] = [];
  const { read, socket, end } = await stubborn({
    handle: ({ url }, response) => {
      asked.push(url);
      response.end(answer);
    },
  });
  socket.pause();
  socket.write(requests(0, 3));
  await expect.poll(read).toBe(3);
  expect(asked).toEqual(["/0"]);
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => (bytes += chunk.length)).resume();
  await expect.poll(() => bytes, { timeout: 5_000 }).toBeGreaterThan(3 * answer.length);
  expect(asked).toEqual(["/0", "/1", "/2"]);
  end();
});

test.each([
  {
    what: "breaks off",
    end: (_answer: ServerResponse, client: Socket) => client.resetAndDestroy(),
  },
  { what: "ends with the answer before", end: closing },
])("of a connection that $what nothing that waits is worked on", async ({ end: endIt }) => {
  const asked: ServerResponse[] = [];
  const { read, socket, connections, end } = await stubborn({
    handle: (_request, response) => asked.push(response),
  });
  socket.write(requests(0, 3));
  await expect.poll(read).toBe(3);
  const [first] = asked;
  if (first) endIt(first, socket);
  socket.resume();
  await expect.poll(connections).toBe(0);
  expect(asked).toHaveLength(1);
  end();
});

function closing(answer: ServerResponse): void {
  answer.writeHead(200, { Connection: "close" }).end();
}

test("requests that wait when the server begins to end are answered", async () => {
  const asked: ServerResponse[] = [];
  const { read, socket, received, endServer } = await stubborn({
    handle: (_request, response) => asked.push(response),
  });
  socket.write(requests(0, 3));
  await expect.poll(read).toBe(3);
  const ended = endServer(timers);
  for (let n = 0; n < 3; n += 1) {
    await expect.poll(() => asked.length).toBe(n + 1);
    asked[n]?.end(`answer ${n}`);
  }
  await expect.poll(received).toMatch(/answer 0[^]*answer 1[^]*answer 2$/);
  await ended;
  socket.destroy();
});

test("what comes behind an expectation that is not met would not be answered, and is not worked on", async () => {
  const asked: (string | undefined)[] = [];
  const { socket, received, end } = await stubborn({
    handle: ({ url }, response) => {
      asked.push(url);
      response.end("ok");
    },
  });
  socket.write(
    `POST /0 HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n${requests(1, 2)}`,
  );
  await expect.poll(received).toMatch(/^HTTP\/1\.1 417 /);
  expect(asked).toEqual([]);
  end();
});

test("requests that wait for their answers are not bounded", async () => {
  const { socket, end } = await stubborn({
    handle: ({ url }, response) => response.end(url),
  });
  for (let n = 0; n < 110; n += 1) {
    socket.write(requests(n, n + 1));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(new RegExp(`^HTTP/1\\.1 200 [^]*/${n}$`));
  }
  end();
});

test("a flood of requests on one connection is cut off", async () => {
  let asked = 0;
  const { read, socket, connections, end } = await stubborn({ handle: () => (asked += 1) });
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_101));
  await expect.poll(read).toBe(1_101);
  await expect.poll(connections).toBe(0);
  expect(asked).toBe(1);
  end();
});

test.each(["", ...NO_REQUESTS])(
  "a client that does not read its answer is let go: %j",
  async (text) => {
    const { socket, connections, end } = await stubborn({
      stalledMs: 300,
      handle: (_request, response) => setImmediate(() => response.end(Buffer.alloc(50_000_000))),
    });
    socket.pause();
    socket.write(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${text}`);
    await expect.poll(connections).toBe(1);
    await expect.poll(connections).toBe(0);
    end();
  },
);

test("a client that asks for a tunnel and breaks off does no harm", async () => {
  const { server, metrics, socket, end } = await stubborn({ handle: () => undefined });
  const accepted = once(server, "connection") as Promise<[Socket]>;
  socket.write("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n");
  const [theirs] = await accepted;
  await once(socket, "data");
  socket.resetAndDestroy();
  await expect.poll(() => theirs.closed).toBe(true);
  expect((await metrics.render()).text).toMatch(/^carillon_http_requests_total\{.*"405"\} 1$/m);
  end();
});

test("a request that does not arrive in time is told so", async () => {
  const { server, end } = await stubborn({ handle: () => undefined });
  const told = new PassThrough();
  server.emit("clientError", { code: "ERR_HTTP_REQUEST_TIMEOUT" }, told);
  expect(String(told.read())).toMatch(/^HTTP\/1\.1 408 .*"request_timeout"/s);
  end();
});

test("a request of which that was said is not worked on when the rest of it comes", async () => {
  const begun = Promise.withResolvers<void>();
  let worked = false;
  const { server, socket, received, connections, end } = await stubborn({
    handle: (request) => {
      begun.resolve();
      request.on("end", () => (worked = true)).resume();
    },
  });
  const accepted = once(server, "connection") as Promise<[Socket]>;
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx");
  const [theirs] = await accepted;
  await begun.promise;
  server.emit("clientError", { code: "ERR_HTTP_REQUEST_TIMEOUT" }, theirs);
  await expect.poll(received).toMatch(/^HTTP\/1\.1 408 /);
  socket.write("x");
  await expect.poll(connections).toBe(0);
  expect(worked).toBe(false);
  end();
});

/** A connection with an answer under way, and a second request whose last byte is missing. */
async function late() {
  const first = Promise.withResolvers<() => void>();
  const second = Promise.withResolvers<IncomingMessage>();
  const parts = await stubborn({
    handle: (request, response) => {
      if (request.url === "/0") {
        response.writeHead(200, { "Content-Length": 2 }).write("/");
        first.resolve(() => response.end("0"));
        return;
      }
      request.resume().on("end", () => response.end("late, and whole"));
      second.resolve(request);
    },
  });
  const accepted = once(parts.server, "connection") as Promise<[Socket]>;
  // More than the server buffers before the request is read.
  const body = "x".repeat(200_000);
  const head = `POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length + 1}\r\n\r\n`;
  parts.socket.write(`${requests(0, 1)}${head}${body}`);
  const [theirs] = await accepted;
  const answer = await first.promise;
  await expect.poll(parts.read).toBe(2);
  // As Node does, once, 120 s after the request's first byte.
  parts.server.emit("clientError", { code: "ERR_HTTP_REQUEST_TIMEOUT" }, theirs);
  answer();
  const request = await second.promise;
  vi.advanceTimersByTime(119_999);
  return { ...parts, request };
}

describe("the time of a request that waits begins with its turn", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("it is not refused for what it waited", async () => {
    const { request, socket, received, end } = await late();
    socket.write("x");
    await once(request, "close");
    expect(vi.getTimerCount()).toBe(0);
    await expect.poll(received).toMatch(/\/0HTTP\/1\.1 200 [^]*late, and whole$/);
    end();
  });

  test("it does not take longer than any other", async () => {
    const { received, end } = await late();
    expect(received()).not.toContain("408");
    vi.advanceTimersByTime(1);
    await expect.poll(received).toMatch(/\/0HTTP\/1\.1 408 [^]*"request_timeout"/);
    end();
  });
});

test("a client that has its answer sends the rest of its request no longer than any other", async () => {
  const { server, socket, received, connections, end } = await stubborn({
    handle: (_request, response) => response.end("no"),
  });
  const accepted = once(server, "connection") as Promise<[Socket]>;
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nx");
  const [theirs] = await accepted;
  await expect.poll(received).toMatch(/no$/);
  expect(await connections()).toBe(1);
  // As Node does 120 s after the request's first byte.
  server.emit("clientError", { code: "ERR_HTTP_REQUEST_TIMEOUT" }, theirs);
  await expect.poll(connections).toBe(0);
  end();
});

test("nothing is kept of a connection that has closed", async () => {
  const { server, socket, end } = await stubborn({
    handle: (_request, response) => response.end(),
  });
  await once(socket, "connect");
  const theirs: WeakRef<object>[] = [];
  server.on("connection", (accepted: Socket) => theirs.push(new WeakRef(accepted)));
  const { port } = server.address() as AddressInfo;
  for (let n = 0; n < 5; n += 1) {
    const client = connect(port, "127.0.0.1");
    client.end("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    await once(client.resume(), "close");
  }
  // The engine may still hold the last one.
  await expect
    .poll(() => {
      collectGarbage();
      return theirs.filter((each) => each.deref() !== undefined).length;
    })
    .toBeLessThanOrEqual(1);
  expect(theirs).toHaveLength(5);
  socket.destroy();
  end();
});

test("no connection is kept or waited for as Node would, and idle ones longer than a load balancer", () => {
  const { server } = createHttpServer({
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    handle: () => undefined,
  });
  expect(server.keepAliveTimeout).toBeGreaterThan(60_000);
  expect(server.headersTimeout).toBeLessThan(60_000);
  expect(server.requestTimeout).toBeLessThan(300_000);
  expect(server.timeout).toBeGreaterThan(0);
});
