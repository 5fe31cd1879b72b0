import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";

/** Listens and returns the base URL; rejects with the listen error. */
export async function listen(server: Server, at: { host: string; port: number }): Promise<string> {
  server.listen({ host: at.host, port: at.port });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return baseUrl(at.host, port);
}

/** As a person on this machine would type it. */
export function baseUrl(host: string, port: number): string {
  const name =
    host === "0.0.0.0" || host === "::" ? "localhost" : isIPv6(host) ? `[${host}]` : host;
  return `http://${name}:${port}`;
}
