import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  path: string;
  method: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** When the whole request had arrived, in milliseconds since the epoch. */
  at: number;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** Connections that have been opened so far. */
  readonly opened: number;
  /** Resolves when so many calls have arrived. */
  count(calls: number, timeoutMs?: number): Promise<Received[]>;
  close(): Promise<void>;
}

/** A real receiver that keeps what it gets. By default it answers 200. */
export async function startReceiver(
  answer: (call: Received, response: ServerResponse) => void = (_call, response) => {
    response.end("ok");
  },
): Promise<Receiver> {
  const received: Received[] = [];
  let listeners: (() => void)[] = [];
  let opened = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { url: path = "", method = "", headers } = request;
      const body = Buffer.concat(chunks).toString();
      const call = { path, method, headers, body, at: Date.now() };
      received.push(call);
      answer(call, response);
      for (const listener of listeners) listener();
    });
  });
  server.on("connection", () => {
    opened += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    get opened() {
      return opened;
    },
    count: (calls, timeoutMs = 15_000) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          reject(new Error(`${received.length} of ${calls} calls within ${timeoutMs} ms`));
        }, timeoutMs);
        const check = (): void => {
          if (received.length < calls) return;
          clearTimeout(timer);
          listeners = listeners.filter((listener) => listener !== check);
          resolve(received);
        };
        listeners.push(check);
        check();
      }),
    close: async () => {
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      server.closeAllConnections();
      await closed;
    },
  };
}
