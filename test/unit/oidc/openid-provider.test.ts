import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createOpenIdProvider } from "../../../src/oidc/openid-provider.ts";

const MIB = 1_048_576;

/** A provider that answers whatever it is asked in this way. */
async function provider(answer: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => {
    answer(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return createOpenIdProvider({
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clientId: "carillon",
    clientSecret: undefined,
    name: "Example ID",
    publicUrl: "https://carillon.example.com",
    monotonic: () => performance.now(),
    // Longer than a test may take: what ends it is not the time.
    timeoutSeconds: 600,
  });
}

function begin(response: ServerResponse, headers: Record<string, string> = {}): void {
  response.writeHead(200, { "Content-Type": "application/json", ...headers });
}

test("an answer without end is not read on", async () => {
  let left = false;
  const endless = await provider((response) => {
    begin(response);
    response.on("close", () => (left = true));
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(MIB, " ")));
    };
    response.on("drain", more);
    more();
  });
  await expect(endless.begin()).rejects.toThrow("Example ID is unavailable");
  await expect.poll(() => left).toBe(true);
});

test("an answer that is large only once it is unpacked is not read on", async () => {
  const packed = gzipSync(Buffer.alloc(64 * MIB, " "));
  const bomb = await provider((response) => {
    begin(response, { "Content-Encoding": "gzip" });
    // Never ended: who unpacks all of it waits for more.
    response.write(packed);
  });
  await expect(bomb.begin()).rejects.toThrow("Example ID is unavailable");
});

test("an answer of half a megabyte is read", async () => {
  const wordy = await provider((response) => {
    const { port } = response.req.socket.address() as AddressInfo;
    const issuer = `http://127.0.0.1:${port}`;
    begin(response);
    response.end(
      JSON.stringify({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        claims_supported: Array.from({ length: 50_000 }, (_, n) => `c${n}`),
      }),
    );
  });
  expect((await wordy.begin()).url).toContain("/authorize?");
});
