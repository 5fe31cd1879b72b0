import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { post, type Answer } from "../../../src/delivery/http-post.ts";
import { receiverUrl } from "../../../src/delivery/receiver-url.ts";
import {
  afterReading,
  type ReceiverConnection,
} from "../../../src/delivery/receiver-connection.ts";
import {
  createReceiverConnections,
  type IdleLimits,
  type ReceiverConnections,
} from "../../../src/delivery/receiver-connections.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { until } from "../../until.ts";

let server: Server;
let origin: string;
/** How the receiver answers a call, by path. */
const answers = new Map<string, Parameters<typeof createServer>[1]>();
let opened: number;
/** Open connections as the caller sees them: it may learn of an end later than the receiver. */
let open: number;
/** Dials that have ended with a connection. */
let connected: number;
/** The accounts of the dials, in order. */
let dialled: string[];
let time: number;
let connections: ReceiverConnections;

beforeEach(async () => {
  [opened, open, connected, dialled, time] = [0, 0, 0, [], 0];
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
  connections = limited();
});
afterEach(async () => {
  await connections.close();
  // So that the next test counts only its own.
  await until("all are closed", () => open === 0);
  answers.clear();
  server.closeAllConnections();
  server.close();
});

function limited(idleLimits?: IdleLimits): ReceiverConnections {
  return createReceiverConnections({
    // One server stands for all hosts.
    dial: async ({ account, port, onread }) => {
      dialled.push(account);
      const socket = connect({ port, host: "127.0.0.1", ...(onread && { onread }) });
      open += 1;
      socket.on("close", () => {
        open -= 1;
      });
      await once(socket, "connect");
      connected += 1;
      return socket;
    },
    monotonic: () => time,
    idleLimits,
  });
}

async function call(
  account: string,
  path = "/",
  signal?: AbortSignal,
  to = origin,
): Promise<Answer> {
  return post({
    take: () => connections.take(account, to, 5_000),
    url: receiverUrl(new URL(path, to).href),
    headers: "",
    body: "{}",
    signal: signal ?? new AbortController().signal,
    timeoutMs: 5_000,
    maySend: () => true,
  });
}

function at(host: string): string {
  return `http://${host}.example:${new URL(origin).port}`;
}

async function callHost(account: string, host: string, path = "/"): Promise<Answer> {
  return call(account, path, undefined, at(host));
}

/** Makes a call; whether it dialled. */
async function dials(account: string, host: string): Promise<boolean> {
  const before = dialled.length;
  expect(await callHost(account, host)).toMatchObject({ status: 200 });
  return dialled.length > before;
}

async function take(account: string, hosts: readonly string[]): Promise<ReceiverConnection[]> {
  const taken: ReceiverConnection[] = [];
  for (const host of hosts) taken.push(await connections.take(account, at(host), 5_000));
  return taken;
}

async function untilOpen(expected: number): Promise<void> {
  await until(
    () => `${expected} are open, not ${open}`,
    () => open === expected,
  );
}

/** Until they are open, and not only on their way. */
async function warm(count: number): Promise<void> {
  connections.warmUp("a", origin, count);
  await until(
    () => `${count} are connected, not ${connected}`,
    () => connected === count,
  );
}

/** How many are still in memory. The engine may still hold the last one. */
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
  const url = receiverUrl(`${scheme}://receiver.example/`);
  const take = () => own.take("a", url.origin, 5_000);
  const { signal } = new AbortController();
  const request = { take, url, headers: "", body: "{}", signal, timeoutMs: 5_000 };
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

test("one that is called again at once for a minute is dialled anew as well", async () => {
  await call("a");
  for (const moment of [59_990, 60_001]) {
    // By now the connection is idle: what followed the answer has been read.
    await new Promise<void>((resolve) => afterReading(resolve));
    time = moment;
    expect(dialled).toHaveLength(1);
    await call("a");
  }
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
    // By now what followed the answer has been read.
    await new Promise<void>((resolve) => afterReading(resolve));
    time += 1_000;
    // The end is under way, and will not be read in this turn.
    for (const socket of sockets) end(socket);
    expect(await call("a")).toMatchObject({ status: 200 });
    expect(opened).toBe(2);
  },
);

test("what has come of an answer stays while another one is read", async () => {
  const begun = Promise.withResolvers<Socket>();
  answers.set("/in-two", ({ socket }) => {
    socket.write("HTTP/1.1 503 Busy\r\nRetry-After: 1", () => {
      begun.resolve(socket);
    });
  });
  const inTwo = call("a", "/in-two");
  const rest = await begun.promise;
  expect(await call("b")).toEqual({ status: 200, retryAfter: null });
  rest.write("20\r\nContent-Length: 0\r\n\r\n");
  expect(await inTwo).toEqual({ status: 503, retryAfter: "120" });
});

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
    const request = { take, url: receiverUrl(`${origin}/close`), headers: "", body: "{}", signal };
    await post({ ...request, timeoutMs: 5_000, maySend: () => true });
  };
  for (let n = 0; n < 5; n += 1) await one();
  await until("all but one are forgotten", () => remaining(used) <= 1);
  expect(opened).toBe(5);
});

test("nothing is kept of a call that is over, however long it might have taken", async () => {
  // Like a worker's signal, it outlives the calls.
  const { signal } = new AbortController();
  const used: WeakRef<object>[] = [];
  const one = async (): Promise<void> => {
    const take = () => connections.take("a", origin, 5_000);
    // The connection is kept for the next call.
    used.push(new WeakRef(take));
    const request = { take, url: receiverUrl(origin), headers: "", body: "{}", signal };
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

describe("connections opened for calls to come", () => {
  test("are used by these calls, and nothing is sent on them before", async () => {
    let requests = 0;
    server.on("request", () => {
      requests += 1;
    });
    await warm(3);
    expect(requests).toBe(0);
    await Promise.all([call("a"), call("a"), call("a")]);
    expect([requests, opened]).toEqual([3, 3]);
    await call("b");
    expect(opened).toBe(4);
  });

  test("are as many as are missing beside idle ones and those that are being opened", async () => {
    const [inUse, idle] = await Promise.all([
      connections.take("a", origin, 5_000),
      connections.take("a", origin, 5_000),
    ]);
    idle?.release(true);
    connections.warmUp("a", origin, 1);
    expect(dialled).toHaveLength(2);
    connections.warmUp("a", origin, 3);
    connections.warmUp("a", origin, 3);
    expect(dialled).toHaveLength(4);
    await untilOpen(4);
    connections.warmUp("a", origin, 3);
    inUse?.close();
    await untilOpen(3);
    expect(dialled).toHaveLength(4);
  });

  test("are used in the order in which they were opened: some receivers serve them in this order", async () => {
    for (const count of [1, 2, 3]) {
      time = count;
      await warm(count);
    }
    const taken = await Promise.all(
      [1, 2, 3].map(async () => connections.take("a", origin, 5_000)),
    );
    expect(taken.map(({ openedAt }) => openedAt)).toEqual([1, 2, 3]);
    for (const connection of taken) connection.release(true);
    // The next calls take the one used last.
    expect((await connections.take("a", origin, 5_000)).openedAt).toBe(3);
  });

  test("displace none that are idle, and are no more than may be idle", async () => {
    await connections.close();
    connections = limited({ inAll: 4, perAccount: 2 });
    await callHost("a", "one");
    for (let n = 0; n < 2; n += 1) connections.warmUp("a", origin, 5);
    expect(dialled).toHaveLength(2);
    await untilOpen(2);
    expect(await dials("a", "one")).toBe(false);
    connections.warmUp("b", origin, 5);
    expect(dialled).toEqual(["a", "a", "b", "b"]);
    connections.warmUp("c", origin, 5);
    expect(dialled).toHaveLength(4);
    await untilOpen(4);
  });

  test("that take long to open are not waited for, and have no job's time limit", async () => {
    const limits: unknown[] = [];
    const slow = createReceiverConnections({
      dial: ({ timeoutMs }) => {
        limits.push(timeoutMs);
        return limits.length === 1
          ? new Promise(() => undefined)
          : Promise.reject(new Error("dialled anew"));
      },
      monotonic: () => time,
    });
    slow.warmUp("a", origin, 1);
    time = 1_001;
    await expect(slow.take("a", origin, 5_000)).rejects.toThrow("dialled anew");
    expect(limits).toEqual([Infinity, 5_000]);
    await slow.close();
  });

  test("which are not open yet, are waited for: the call dials no other one", async () => {
    connections.warmUp("a", origin, 2);
    await Promise.all([call("a"), call("a"), call("a")]);
    expect(dialled).toHaveLength(3);
    await untilOpen(3);
  });

  test("which are not open yet, are for calls of their account to their receiver only", async () => {
    connections.warmUp("a", origin, 1);
    await Promise.all([call("b"), callHost("a", "other")]);
    expect(dialled).toEqual(["a", "b", "a"]);
    await untilOpen(3);
    await call("a");
    expect(dialled).toHaveLength(3);
  });

  test("belong to the call that waited for them until it is over", async () => {
    const asked = Promise.withResolvers<void>();
    answers.set("/hang", () => {
      asked.resolve();
    });
    const ending = new AbortController();
    connections.warmUp("a", origin, 1);
    const hanging = call("a", "/hang", ending.signal);
    await asked.promise;
    expect(dialled).toHaveLength(1);
    expect(await call("a")).toMatchObject({ status: 200 });
    expect(dialled).toHaveLength(2);
    ending.abort(new Error("enough"));
    await expect(hanging).rejects.toThrow("enough");
  });

  test("that cannot be opened fail the calls that wait for them, and nobody else", async () => {
    const refusals: ((error: Error) => void)[] = [];
    const refusing = createReceiverConnections({
      dial: () => new Promise((_resolve, reject) => refusals.push(reject)),
      monotonic: () => time,
    });
    refusing.warmUp("a", origin, 2);
    const waiting = refusing.take("a", origin, 5_000);
    for (const [n, refuse] of refusals.entries()) refuse(new Error(`failure ${n + 1}`));
    await expect(waiting).rejects.toThrow("failure 1");
    // The other failure has been forgotten: an unhandled rejection would fail the test.
    const next = refusing.take("a", origin, 5_000);
    await until("it has been dialled", () => refusals.length === 3);
    refusals[2]?.(new Error("failure 3"));
    await expect(next).rejects.toThrow("failure 3");
    await refusing.close();
  });

  test("are closed when nobody wants connections any more", async () => {
    connections.warmUp("a", origin, 2);
    await connections.close();
    await until("both were opened", () => opened === 2);
    await untilOpen(0);
    connections.warmUp("a", origin, 2);
    expect(dialled).toHaveLength(2);
  });
});

describe("idle connections are limited", () => {
  beforeEach(() => {
    // So that none is closed by its age meanwhile.
    server.keepAliveTimeout = 60_000;
    connections = limited({ inAll: 4, perAccount: 2 });
  });

  test("in all: who rests longest is closed, whosever it is", async () => {
    for (const account of ["a", "b", "c", "d", "e", "f"]) await callHost(account, "one");
    await untilOpen(4);
    for (const account of ["f", "e", "d", "c"]) expect(await dials(account, "one")).toBe(false);
    expect(await dials("a", "one")).toBe(true);
    await untilOpen(4);
    expect(await dials("f", "one")).toBe(true);
  });

  test("of an account: those of another stay, however long they have rested", async () => {
    await callHost("b", "one");
    for (const host of ["one", "two", "three", "four", "five"]) await callHost("a", host);
    await untilOpen(3);
    expect(await dials("b", "one")).toBe(false);
    expect(await dials("a", "four")).toBe(false);
    expect(await dials("a", "five")).toBe(false);
    expect(await dials("a", "three")).toBe(true);
  });

  test("who was called last stays, although it was opened first", async () => {
    await callHost("a", "one");
    await callHost("a", "two");
    expect(await dials("a", "one")).toBe(false);
    await callHost("a", "three");
    await untilOpen(2);
    expect(await dials("a", "one")).toBe(false);
    expect(await dials("a", "two")).toBe(true);
  });

  test("of several to one origin, the one that was released first is closed", async () => {
    const taken = await take("a", ["one", "one", "one"]);
    for (const connection of taken) connection.release(true);
    expect(taken.map(({ gone }) => gone)).toEqual([true, false, false]);
    const again = await take("a", ["one", "one"]);
    expect(again[0]).toBe(taken[2]);
    expect(again[1]).toBe(taken[1]);
    expect(dialled).toHaveLength(3);
  });

  test("a connection with a call is not closed, nor does it count", async () => {
    const held: (() => void)[] = [];
    answers.set("/hold", (_request, response) => {
      held.push(() => response.end("ok"));
    });
    for (const host of ["one", "two"]) await callHost("a", host);
    const calls = ["one", "two", "three"].map((host) => callHost("a", host, "/hold"));
    await until("all are held", () => held.length === 3);
    for (const host of ["four", "five", "six"]) await callHost("a", host);
    await untilOpen(5);
    for (const end of held) end();
    expect(await Promise.all(calls)).toMatchObject(calls.map(() => ({ status: 200 })));
    expect(dialled).toHaveLength(6);
    await untilOpen(2);
  });

  test("a connection that is about to be handed out is not closed", async () => {
    await callHost("a", "one");
    const others = await take("a", ["two", "three", "four"]);
    time += 1_000;
    // The connection was idle, and is checked for some turns before it is used.
    const taking = connections.take("a", at("one"), 5_000);
    expect(taking).toBeInstanceOf(Promise);
    for (const connection of others) connection.release(true);
    const taken = await taking;
    expect(taken.gone).toBe(false);
    expect(others.map(({ gone }) => gone)).toEqual([true, false, false]);
    expect(dialled).toHaveLength(4);
    taken.release(true);
  });

  test("one that its receiver has closed does not count any more", async () => {
    for (const host of ["one", "two"]) await callHost("a", host);
    server.closeIdleConnections();
    await untilOpen(0);
    for (const host of ["three", "four"]) await callHost("a", host);
    for (const host of ["three", "four"]) expect(await dials("a", host)).toBe(false);
    await callHost("a", "five");
    await untilOpen(2);
  });

  test("unless told otherwise, 512 in all and 256 of an account", async () => {
    connections = limited();
    for (let n = 0; n < 257; n += 1) await callHost("a", `host-${n}`);
    await untilOpen(256);
    for (let n = 0; n < 256; n += 1) await callHost("b", `host-${n}`);
    await callHost("c", "one");
    await untilOpen(512);
    expect(dialled).toHaveLength(514);
  });
});
