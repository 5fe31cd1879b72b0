import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Answers 200 at once, on a free port of this machine, with which it resolves. */
export async function startReceiver(onCall: () => void): Promise<number> {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      onCall();
      response.end("ok");
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
