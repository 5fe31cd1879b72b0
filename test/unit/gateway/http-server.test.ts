import { once } from "node:events";
import { Agent, request as send, type IncomingMessage } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createHttpServer, endServer } from "../../../src/gateway/http-server.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

test("ends although callers keep their connections busy", { timeout: 10_000 }, async () => {
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  let answer: (() => void) | undefined;
  const server = createHttpServer({
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
  const closed = once(server, "close");
  server.close();
  // One that comes down the same connection before the caller can know of the end.
  const next = get("/");
  answer?.();
  expect((await inFlight).statusCode).toBe(200);
  expect((await next).headers.connection).toBe("close");
  await closed;
  await expect(get("/")).rejects.toThrow("ECONNREFUSED");
  agent.destroy();
});

test(
  "ends although a caller never sends the rest of its request",
  { timeout: 10_000 },
  async () => {
    const asked = Promise.withResolvers<void>();
    const server = createHttpServer({
      metrics: createMetrics({ version: "test", nodeMetrics: false }),
      handle: () => asked.resolve(),
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    socket.write("POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    await asked.promise;
    const waits: { ms: number; run: () => void }[] = [];
    const cancelled: number[] = [];
    const ended = endServer(server, {
      after: (ms, run) => {
        waits.push({ ms, run });
        return { cancel: () => cancelled.push(ms) };
      },
    });
    expect(waits.map(({ ms }) => ms)).toEqual([25_000]);
    waits[0]?.run();
    await ended;
    expect(cancelled).toEqual([25_000]);
    socket.destroy();
  },
);
