import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface Call {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface ScriptedReceiver {
  url: string;
  calls: Call[];
  at(path: string): Call[];
  /** The statuses of the next answers on a path; then 200 again. */
  answer(path: string, statuses: number[]): void;
  close(): Promise<void>;
}

/** A real HTTP server that writes down its calls and answers as it was told. */
export async function startScriptedReceiver(): Promise<ScriptedReceiver> {
  const calls: Call[] = [];
  const scripts = new Map<string, number[]>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const path = request.url ?? "";
      calls.push({ path, headers: request.headers, body: Buffer.concat(chunks).toString() });
      response.writeHead(scripts.get(path)?.shift() ?? 200).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    at: (path) => calls.filter((call) => call.path === path),
    answer(path, statuses) {
      scripts.set(path, statuses);
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
