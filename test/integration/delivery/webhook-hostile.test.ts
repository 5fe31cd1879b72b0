import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { WebhookTarget } from "../../../src/domain/job.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { until } from "../../until.ts";
import { claimedRun } from "./claimed-run.ts";
import { loopbackSender } from "./loopback-sender.ts";
import { SECRET } from "./worker-fixture.ts";

const sender = loopbackSender();
let servers: { server: Server; sockets: Set<Socket> }[] = [];

afterEach(async () => {
  for (const { server, sockets } of servers) {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
  servers = [];
});
afterAll(() => sender.close());

/** A receiver that works on bytes. `onRequest` is called when the request's headers have arrived. */
async function receiver(onRequest: (socket: Socket, head: string) => void, onOpen?: () => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    onOpen?.();
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk) => {
      onRequest(socket, chunk.toString("latin1"));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  servers.push({ server, sockets });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function send(url: string, change: Partial<WebhookTarget> = {}, maySend = () => true) {
  const run: ClaimedRun = claimedRun({ url, timeoutSeconds: 60, ...change });
  if (run.spec.target.kind !== "webhook") throw new Error("a webhook");
  return sender.send({
    run,
    target: run.spec.target,
    signingSecrets: [SECRET],
    signal: new AbortController().signal,
    maySend,
  });
}

test.each<{ how: string; accountRules: () => Promise<never> }>([
  {
    how: "away",
    accountRules: async () => {
      throw new DependencyUnavailable("postgres", { cause: { code: "57P01" } });
    },
  },
  { how: "hanging", accountRules: () => new Promise(() => undefined) },
])("what cannot be checked, the database $how, was not called", async ({ accountRules }) => {
  const cut = loopbackSender({ dial: { accountRules } });
  // Shorter than the limit of a connection.
  const run = claimedRun({ url: "http://127.0.0.1:9/", timeoutSeconds: 1 });
  if (run.spec.target.kind !== "webhook") throw new Error("a webhook");
  const { target } = run.spec;
  const { signal } = new AbortController();
  expect(
    await cut.send({ run, target, signingSecrets: [SECRET], signal, maySend: () => true }),
  ).toEqual({
    kind: "not_sent",
  });
  await cut.close();
});

const hang = (): void => undefined;
const write = (text: string) => (socket: Socket) => {
  socket.write(text);
};

describe("whatever a receiver does has an outcome within the deadline", () => {
  test.each<{
    does: string;
    onRequest: (socket: Socket) => unknown;
    outcome: object;
    /** The call lasts until its deadline, which is short then. Otherwise it is longer than the test may take. */
    hangs?: true;
  }>([
    {
      does: "never answers",
      onRequest: hang,
      outcome: {
        kind: "retryable",
        httpStatus: 500,
        error: "timed out: no answer within 0.4 s",
      },
      hangs: true,
    },
    {
      does: "drips its headers",
      onRequest: (socket: Socket) => {
        const timer = setInterval(() => socket.write("X"), 20);
        socket.on("close", () => clearInterval(timer));
      },
      outcome: { kind: "retryable", httpStatus: 500 },
      hangs: true,
    },
    {
      does: "stops in the headers",
      onRequest: write("HTTP/1.1 200 OK\r\nContent-"),
      outcome: { kind: "retryable", httpStatus: 500 },
      hangs: true,
    },
    {
      does: "never ends its body",
      onRequest: write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
      outcome: { kind: "delivered", httpStatus: 200 },
    },
    {
      does: "sends an endless body",
      onRequest: (socket: Socket) => {
        socket.write("HTTP/1.1 500 no\r\nTransfer-Encoding: chunked\r\n\r\n");
        const more = (): void => {
          while (!socket.destroyed && socket.write(`10000\r\n${"x".repeat(65_536)}\r\n`));
          socket.once("drain", more);
        };
        more();
      },
      outcome: { kind: "retryable", httpStatus: 500, error: "the receiver answered 500" },
    },
    {
      does: "sends huge headers",
      onRequest: write(`HTTP/1.1 200 OK\r\nX: ${"y".repeat(100_000)}\r\n\r\n`),
      outcome: { kind: "retryable", httpStatus: 500 },
    },
    {
      does: "claims a bad gzip",
      onRequest: write("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
      outcome: { kind: "delivered", httpStatus: 200 },
    },
    {
      does: "resets",
      onRequest: (socket: Socket) => socket.resetAndDestroy(),
      outcome: { kind: "retryable", httpStatus: 500 },
    },
    {
      does: "talks garbage",
      onRequest: write("SSH-2.0-OpenSSH_9.6\r\n"),
      outcome: {
        kind: "retryable",
        httpStatus: 500,
        error: "the receiver's answer is not valid HTTP/1.1",
      },
    },
    {
      does: "says two lengths",
      onRequest: write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
      outcome: {
        kind: "retryable",
        httpStatus: 500,
        error: "the receiver's answer is not valid HTTP/1.1",
      },
    },
    {
      does: "switches protocols",
      onRequest: write("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
      outcome: { kind: "retryable", httpStatus: 500 },
    },
    {
      does: "sends early hints first",
      onRequest: write(
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
      ),
      outcome: { kind: "delivered", httpStatus: 204 },
    },
    {
      does: "says to go on, which nobody asked it",
      onRequest: write(
        `${"HTTP/1.1 100 Continue\r\n\r\n".repeat(60)}HTTP/1.1 100\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n`,
      ),
      outcome: { kind: "delivered", httpStatus: 204 },
    },
    {
      does: "sends early hints without an end",
      onRequest: write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(200)),
      outcome: {
        kind: "retryable",
        httpStatus: 500,
        error: "the answer's headers are too large",
      },
    },
    {
      does: "redirects",
      onRequest: write(
        "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
      ),
      outcome: { kind: "permanent", httpStatus: 307 },
    },
    {
      does: "asks for patience",
      onRequest: write("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"),
      outcome: { kind: "retryable", httpStatus: 429, retryAfterMs: 7_000 },
    },
  ])("$does", async ({ onRequest, outcome, hangs }) => {
    const deadline = hangs ? { timeoutSeconds: 0.4 } : {};
    expect(await send(await receiver(onRequest), deadline)).toMatchObject(outcome);
  });

  test("is not TLS where TLS is spoken", async () => {
    const url = await receiver(write("HTTP/1.1 400 plain\r\n\r\n"));
    expect(await send(url.replace("http:", "https:"))).toMatchObject({
      kind: "retryable",
      httpStatus: 500,
    });
  });

  test("nobody listens", async () => {
    const url = await receiver(hang);
    for (const { server } of servers) server.close();
    expect(await send(url)).toMatchObject({ kind: "retryable", error: "connection refused" });
  });
});

test("an endless body of many calls leaves nothing in memory", async () => {
  const calls = 200;
  const chunk = 65_536;
  const url = await receiver((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const more = (): void => {
      while (!socket.destroyed && socket.write(`10000\r\n${"x".repeat(chunk)}\r\n`));
      socket.once("drain", more);
    };
    more();
  });
  async function called(count: number): Promise<void> {
    for (let n = 0; n < count; n += 40)
      await Promise.all(Array.from({ length: 40 }, () => send(url)));
    // Until then each of them holds a chunk that nobody reads.
    await until("all are closed", () => servers.every(({ sockets }) => sockets.size === 0));
  }
  await called(40);
  const before = await memoryInUse();
  await called(calls);
  expect((await memoryInUse()) - before).toBeLessThan((calls * chunk) / 8);
});

/** Memory of objects, texts and buffers, in bytes. */
async function memoryInUse(): Promise<number> {
  collectGarbage();
  // Memory of a closed socket is freed only after the turn in which it has ended.
  await turn();
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test("thousands of short headers hold up nobody", async () => {
  const url = await receiver(write(`HTTP/1.1 200 OK\r\n${"a:b\r\n".repeat(13_000)}`));
  const before = process.cpuUsage();
  const outcomes = await Promise.all(Array.from({ length: 16 }, () => send(url)));
  // Processor time in milliseconds, because the machine may be busy with other things.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  for (const outcome of outcomes)
    expect(outcome).toMatchObject({ error: "the answer's headers are too large" });
});

test("a claim lost while connecting: no byte of the request leaves", async () => {
  let opened = false;
  let received = "";
  const url = await receiver(
    (_socket, head) => {
      received += head;
    },
    () => {
      opened = true;
    },
  );
  expect(await send(url, {}, () => false)).toEqual({ kind: "not_sent" });
  // The receiver may learn of a connection and of its end only after the caller has finished.
  await expect.poll(() => opened && servers.every(({ sockets }) => sockets.size === 0)).toBe(true);
  expect(received).toBe("");
});

test("an attempt that is ended before there is a connection has sent nothing", async () => {
  const asked = Promise.withResolvers<void>();
  const lookup = (): Promise<never> => {
    asked.resolve();
    return new Promise(() => undefined);
  };
  const stuck = loopbackSender({ dial: { lookup } });
  const run = claimedRun({ url: "http://receiver.example/" });
  if (run.spec.target.kind !== "webhook") throw new Error("a webhook");
  const ending = new AbortController();
  const sent = stuck.send({
    run,
    target: run.spec.target,
    signingSecrets: [],
    signal: ending.signal,
    maySend: () => true,
  });
  await asked.promise;
  ending.abort(new Error("interrupted"));
  expect(await sent).toEqual({ kind: "not_sent" });
  await stuck.close();
});

test("an attempt that is ended before it begins calls nobody", async () => {
  let opened = 0;
  const url = await receiver(write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), () => {
    opened += 1;
  });
  const run = claimedRun({ url });
  const { target } = run.spec;
  if (target.kind !== "webhook") throw new Error("a webhook");
  const aborted = AbortSignal.abort(new Error("interrupted"));
  const attempt = { run, target, signingSecrets: [], maySend: () => true };
  const own = loopbackSender();
  expect(await own.send({ ...attempt, signal: aborted })).toEqual({ kind: "not_sent" });
  // The receiver learns of connections in order: by now it would know of an earlier one.
  const { signal } = new AbortController();
  expect(await own.send({ ...attempt, signal })).toMatchObject({ kind: "delivered" });
  expect(opened).toBe(1);
  await own.close();
});

test("an open connection is never used by another account", async () => {
  let connections = 0;
  const url = await receiver(
    write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"),
    () => {
      connections += 1;
    },
  );
  await send(url);
  // The connection can be used again in the turn after the answer.
  await turn();
  await send(url);
  await turn();
  expect(connections).toBe(1);
  const other = claimedRun({ url }, { account: "another" });
  if (other.spec.target.kind !== "webhook") throw new Error("a webhook");
  await sender.send({
    run: other,
    target: other.spec.target,
    signingSecrets: [],
    signal: new AbortController().signal,
    maySend: () => true,
  });
  expect(connections).toBe(2);
});
