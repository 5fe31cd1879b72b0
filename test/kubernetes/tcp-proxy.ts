import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

/** A wire between client and API server that a test can damage. TLS passes through untouched. */
export interface TcpProxy {
  /** `https://127.0.0.1:port`. */
  url: string;
  /** Resets every connection; new ones work. */
  cut(): void;
  /** From now on nothing passes, and nobody is told: what a vanished peer looks like. */
  hang(): void;
  /** Each chunk takes so long, and is at most so big. */
  slow(chunk: { bytes: number; everyMs: number }): void;
  /** New and existing connections work again. Those that hung have lost bytes, and are reset. */
  heal(): void;
  readonly accepted: number;
  close(): Promise<void>;
}

export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(target);
  const pairs = new Set<readonly [Socket, Socket]>();
  let hanging = false;
  let slowness: { bytes: number; everyMs: number } | undefined;
  let accepted = 0;

  function pump(from: Socket, to: Socket): void {
    from.on("data", (data: Buffer) => {
      if (hanging) return;
      if (!slowness) {
        to.write(data);
        return;
      }
      const { bytes, everyMs } = slowness;
      from.pause();
      let at = 0;
      const step = setInterval(() => {
        if (to.destroyed || at >= data.length) {
          clearInterval(step);
          from.resume();
          return;
        }
        to.write(data.subarray(at, at + bytes));
        at += bytes;
      }, everyMs);
    });
  }

  const server = createServer((client) => {
    accepted += 1;
    const upstream = connect(Number(port), hostname);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    pump(client, upstream);
    pump(upstream, client);
    for (const socket of pair) {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (hanging) return;
        client.destroy();
        upstream.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const [client, upstream] of pairs) {
      client.resetAndDestroy();
      upstream.destroy();
    }
    pairs.clear();
  };
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    hang() {
      hanging = true;
    },
    slow(chunk) {
      slowness = chunk;
    },
    heal() {
      slowness = undefined;
      if (!hanging) return;
      hanging = false;
      cut();
    },
    get accepted() {
      return accepted;
    },
    async close() {
      hanging = false;
      cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
