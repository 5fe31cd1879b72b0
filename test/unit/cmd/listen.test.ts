import { once } from "node:events";
import { createServer, connect, type AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { assertFree, baseUrl, listen, onPort } from "../../../cmd/listen.ts";
import { StartProblem } from "../../../src/configuration/start-problem.ts";

test.each([
  { host: "127.0.0.1", url: "http://127.0.0.1:8080" },
  { host: undefined, url: "http://localhost:8080" },
  { host: "0.0.0.0", url: "http://localhost:8080" },
  { host: "::", url: "http://localhost:8080" },
  { host: "::1", url: "http://[::1]:8080" },
  { host: "carillon.example", url: "http://carillon.example:8080" },
])("what listens on $host is reached at $url", ({ host, url }) => {
  expect(baseUrl(host, 8080)).toBe(url);
});

async function listening(host?: string): Promise<number> {
  const server = createServer((socket) => socket.end());
  onTestFinished(() => {
    server.close();
  });
  await listen(server, { host, port: 0 });
  return (server.address() as AddressInfo).port;
}

test.each(["127.0.0.1", "::1"])("without a host it is reached at %s", async (address) => {
  const port = await listening();
  const socket = connect(port, address);
  await once(socket, "connect");
  expect(socket.remotePort).toBe(port);
  socket.destroy();
});

const failure = (fields: object) => Object.assign(new Error("it failed"), fields);

test("a free port is left free, and one in use is not", async () => {
  const host = "127.0.0.1";
  await assertFree({ host, port: 0 });
  const port = await listening(host);
  await expect(onPort("CARILLON_METRICS_PORT", assertFree({ host, port }))).rejects.toThrow(
    new StartProblem(
      `port ${port} on ${host} is in use: stop the other program, or set CARILLON_METRICS_PORT to a free one`,
    ),
  );
});

describe("where one cannot listen it is said what to set", () => {
  test.each([
    {
      error: failure({ syscall: "listen", code: "EACCES", port: 80, address: "0.0.0.0" }),
      line: "0.0.0.0:80 may not be listened on: set PORT to one above 1023",
    },
    {
      error: failure({ syscall: "listen", code: "EADDRNOTAVAIL", port: 80, address: "192.0.2.1" }),
      line: "cannot listen on 192.0.2.1:80 (EADDRNOTAVAIL): set CARILLON_HOST to an address of this machine",
    },
    {
      error: failure({ syscall: "getaddrinfo", code: "ENOTFOUND", hostname: "nowhere" }),
      line: "cannot listen on nowhere (ENOTFOUND): set CARILLON_HOST to an address of this machine",
    },
  ])("$error.code", async ({ error, line }) => {
    await expect(onPort("PORT", Promise.reject(error))).rejects.toThrow(new StartProblem(line));
  });
});

test("other failures stay what they are", async () => {
  const error = new Error("of ours");
  await expect(onPort("PORT", Promise.reject(error))).rejects.toBe(error);
});
