import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { post, type Answer } from "../../../src/delivery/http-post.ts";
import {
  createReceiverConnections,
  type ReceiverConnections,
} from "../../../src/delivery/receiver-connections.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { until } from "../../until.ts";

let server: Server;
let origin: string;
/** What the receiver does with a call to this path. */
const answers = new Map<string, Parameters<typeof createServer>[1]>();
let opened: number;
/** As the caller sees it, who may hear of an end later than the receiver. */
let open: number;
/** By account, in order. */
let dialled: string[];
let time: number;
let connections: ReceiverConnections;

beforeEach(async () => {
  [opened, open, dialled, time] = [0, 0, [], 0];
  server = createServer((request, response) => {
    request.resume();
    const answer = answers.get(request.url ?? "");
    if (answer) answer(request, response);
    else response.end("ok");
  });
  server.on("connection", () => {
    opened += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  connections = createReceiverConnections({
    dial: async ({ account, host, port }) => {
      dialled.push(account);
      const socket = connect(port, host);
      open += 1;
      socket.on("close", () => {
        open -= 1;
      });
      await once(socket, "connect");
      return socket;
    },
    monotonic: () => time,
  });
});
afterEach(async () => {
  await connections.close();
  // The next test counts its own.
  await until("all are closed", () => open === 0);
  answers.clear();
  server.closeAllConnections();
  server.close();
});

async function call(account: string, path = "/", signal?: AbortSignal): Promise<Answer> {
  return post({
    take: () => connections.take(account, origin, 5_000),
    url: new URL(path, origin),
    headers: {},
    body: "{}",
    signal: signal ?? new AbortController().signal,
    timeoutMs: 5_000,
    maySend: () => true,
  });
}

/** The last one may be in the hands of the machine yet. */
function remaining(used: readonly WeakRef<object>[]): number {
  collectGarbage();
  return used.filter((object) => object.deref() !== undefined).length;
}

test("calls one after another share a connection, calls at once do not", async () => {
  for (let n = 0; n < 5; n += 1) await call("a");
  expect(opened).toBe(1);
  await Promise.all([call("a"), call("a"), call("a")]);
  expect(opened).toBe(3);
  await Promise.all([call("a"), call("a"), call("a")]);
  expect(opened).toBe(3);
});

test("the connection used last is used next, so that those too many come to rest", async () => {
  const [first, second] = [
    await connections.take("a", origin, 5_000),
    await connections.take("a", origin, 5_000),
  ];
  first.release(true);
  second.release(true);
  const next = await connections.take("a", origin, 5_000);
  expect(next).toBe(second);
  next.release(true);
});

test.each([
  { scheme: "http", port: 80 },
  { scheme: "https", port: 443 },
])("$scheme without a port is port $port", async ({ scheme, port }) => {
  const asked: object[] = [];
  const own = createReceiverConnections({
    dial: ({ host, port }) => {
      asked.push({ host, port });
      return Promise.reject(new Error("far enough"));
    },
    monotonic: () => time,
  });
  const url = new URL(`${scheme}://receiver.example/`);
  const take = () => own.take("a", url.origin, 5_000);
  const { signal } = new AbortController();
  const request = { take, url, headers: {}, body: "{}", signal, timeoutMs: 5_000 };
  await expect(post({ ...request, maySend: () => true })).rejects.toThrow("far enough");
  expect(asked).toEqual([{ host: "receiver.example", port }]);
  await own.close();
});

test("an account never uses a connection that was dialled for another", async () => {
  await call("a");
  await call("b");
  await call("a");
  await call("b");
  expect(dialled).toEqual(["a", "b"]);
});

test("a connection kept busy for a minute is dialled anew, so that changed rules count", async () => {
  await call("a");
  time = 59_000;
  await call("a");
  expect(dialled).toHaveLength(1);
  time = 61_000;
  await call("a");
  expect(dialled).toHaveLength(2);
  await until("the old one is closed", () => open === 1);
});

test("an answer that was not read to its end closes its connection", async () => {
  answers.set("/endless", (_request, response) => {
    response.writeHead(200);
    const more = (): void => {
      while (response.writable && response.write(Buffer.alloc(16_384))) continue;
    };
    response.on("drain", more);
    more();
  });
  expect((await call("a", "/endless")).status).toBe(200);
  await until("it is closed", () => open === 0);
  await call("a");
  expect(opened).toBe(2);
});

test.each<{ does: string; end: (socket: Socket) => void }>([
  { does: "closes", end: (socket) => socket.destroy() },
  { does: "resets", end: (socket) => socket.resetAndDestroy() },
  {
    does: "says that it has waited for too long",
    end: (socket) => socket.end("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"),
  },
])(
  "a connection whose receiver $does in the moment of the next call is not used",
  async ({ end }) => {
    const sockets: Socket[] = [];
    server.on("connection", (socket: Socket) => sockets.push(socket));
    await call("a");
    // All that followed its answer has been read.
    await turn();
    await turn();
    time += 1_000;
    // It is on its way, and will not be read in this turn.
    for (const socket of sockets) end(socket);
    expect(await call("a")).toMatchObject({ status: 200 });
    expect(opened).toBe(2);
  },
);

test("nothing is kept of a connection that is closed", async () => {
  answers.set("/close", (_request, response) => {
    response.setHeader("Connection", "close");
    response.end("ok");
  });
  const used: WeakRef<object>[] = [];
  const one = async (): Promise<void> => {
    const connection = await connections.take("a", origin, 5_000);
    used.push(new WeakRef(connection));
    const { signal } = new AbortController();
    const take = () => connection;
    const request = { take, url: new URL("/close", origin), headers: {}, body: "{}", signal };
    await post({ ...request, timeoutMs: 5_000, maySend: () => true });
  };
  for (let n = 0; n < 5; n += 1) await one();
  await until("all but one are forgotten", () => remaining(used) <= 1);
  expect(opened).toBe(5);
});

test("nothing is kept of a call that is over, however long it might have taken", async () => {
  // As that of a worker, it outlives the calls.
  const { signal } = new AbortController();
  const used: WeakRef<object>[] = [];
  const one = async (): Promise<void> => {
    const take = () => connections.take("a", origin, 5_000);
    // The connection is there for the next one.
    used.push(new WeakRef(take));
    const request = { take, url: new URL(origin), headers: {}, body: "{}", signal };
    await post({ ...request, timeoutMs: 600_000, maySend: () => true });
  };
  for (let n = 0; n < 5; n += 1) await one();
  await until("all but one are forgotten", () => remaining(used) <= 1);
  expect(signal.aborted).toBe(false);
});

test("a call that is given up closes its connection", async () => {
  const asked = Promise.withResolvers<void>();
  answers.set("/hang", () => {
    asked.resolve();
  });
  const ending = new AbortController();
  const hanging = call("a", "/hang", ending.signal);
  await asked.promise;
  ending.abort(new Error("enough"));
  await expect(hanging).rejects.toThrow("enough");
  await until("it is closed", () => open === 0);
});

test("a receiver that closes after each answer, or while nobody calls, is dialled again", async () => {
  answers.set("/close", (_request, response) => {
    response.setHeader("Connection", "close");
    response.end("ok");
  });
  await call("a", "/close");
  await call("a", "/close");
  expect(opened).toBe(2);
  await call("a");
  server.closeIdleConnections();
  await until("the caller knows", () => open === 0);
  expect((await call("a")).status).toBe(200);
});
