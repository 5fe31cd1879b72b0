import { createServer } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import type { AddressInfo } from "node:net";

/** An answer in place of the API server's. */
export interface Refusal {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

/** Speaks plain HTTP to the client and TLS to the API server, so that a test can answer in its place. */
export interface HttpProxy {
  url: string;
  /** Sets what decides about each request: a refusal, or undefined to pass it on. The request is in `seen` by then. */
  decide(refuse: ((method: string, path: string) => Refusal | undefined) | undefined): void;
  /** Appends bytes to the next chunk of a watch. Of any other answer nobody would read them. */
  injectIntoWatch(bytes: string): void;
  readonly seen: readonly { method: string; path: string; at: number }[];
  close(): Promise<void>;
}

export async function startHttpProxy(target: { server: string; ca: string }): Promise<HttpProxy> {
  const agent = new Agent({ ca: target.ca, keepAlive: true });
  const seen: { method: string; path: string; at: number }[] = [];
  let decide: Parameters<HttpProxy["decide"]>[0];
  let injected = "";
  const server = createServer((request, response) => {
    const { method = "GET", url: path = "/" } = request;
    seen.push({ method, path, at: performance.now() });
    const refusal = decide?.(method, path);
    if (refusal) {
      request.resume();
      response.writeHead(refusal.status, refusal.headers);
      response.end(refusal.body ?? "");
      return;
    }
    const upstream = httpsRequest(
      `${target.server}${path}`,
      { method, headers: { ...request.headers, host: new URL(target.server).host }, agent },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        response.flushHeaders();
        answer.on("data", (data: Buffer) => {
          response.write(data);
          if (injected === "" || !path.includes("watch=true")) return;
          response.write(injected);
          injected = "";
        });
        answer.on("end", () => response.end());
        answer.on("error", () => response.destroy());
      },
    );
    upstream.on("error", () => response.destroy());
    response.on("close", () => upstream.destroy());
    request.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    decide(next) {
      decide = next;
    },
    injectIntoWatch(bytes) {
      injected = bytes;
    },
    seen,
    async close() {
      server.closeAllConnections();
      agent.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
