import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Metrics } from "./metrics.ts";
import type { Readiness } from "./readiness.ts";

export interface HealthServer {
  /** The port that it listens on, also when 0 was asked for. */
  port: number;
  /** At once, even while requests are being answered. */
  close(): void;
}

/**
 * `GET /metrics`, `/healthz` (the process runs) and `/readyz` on a port of their own, which is never
 * exposed to API users. Rejects with the listen error (EADDRINUSE, EACCES).
 */
export async function startHealthServer(options: {
  /** Undefined: on all addresses, of IPv6 and IPv4. */
  host: string | undefined;
  port: number;
  metrics: Pick<Metrics, "render">;
  readiness: Readiness;
}): Promise<HealthServer> {
  const server = createServer((request, response) => {
    void answer(request.method ?? "", request.url ?? "", response).catch(() => {
      if (!response.headersSent) response.writeHead(500);
      response.end();
    });
  });

  async function answer(method: string, url: string, response: ServerResponse): Promise<void> {
    if (method !== "GET" && method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD" }).end();
      return;
    }
    switch (url.replace(/\?.*$/s, "")) {
      case "/metrics": {
        const { contentType, text } = await options.metrics.render();
        response.writeHead(200, { "content-type": contentType }).end(text);
        return;
      }
      case "/healthz":
        sendJson(response, 200, { status: "ok" });
        return;
      case "/readyz": {
        const report = await options.readiness();
        sendJson(response, report.status === "starting" ? 503 : 200, report);
        return;
      }
      default:
        response.writeHead(404).end();
    }
  }

  const { host, port } = options;
  server.listen({ port, host });
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
