import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A wire that a test can damage, between one process and a server, which may restart on another port. */
export interface TcpProxy {
  readonly port: number;
  /** How many connections it has accepted so far. */
  readonly accepted: number;
  /** How many of them are open. */
  readonly open: number;
  /** Resets every connection; new ones work. */
  cut(): void;
  /** From now on nothing passes, on new connections either, and neither side is told. */
  hang(): void;
  /** Nothing passes any more on the present connections, and neither side is told; new ones work. */
  forsake(): void;
  /** Each chunk takes `everyMs`, and has `bytes` at most. */
  slow(chunk: { everyMs: number; bytes?: number }): void;
  /** Lets it work again. Connections that hung have lost bytes, and are reset. Forsaken ones stay forsaken. */
  heal(): void;
  close(): Promise<void>;
}

/** The address of a URL's server. The URL must contain the port. */
export function addressOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

interface Pair {
  client: Socket;
  upstream: Socket;
  forsaken: boolean;
}

export async function startTcpProxy(options: {
  /** Called for each connection. */
  target: () => { host: string; port: number };
}): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let hanging = false;
  let slowness: { everyMs: number; bytes?: number } | undefined;
  let accepted = 0;

  const silent = (pair: Pair): boolean => hanging || pair.forsaken;

  function pump(pair: Pair, from: Socket, to: Socket): void {
    from.on("data", (data: Buffer) => {
      if (silent(pair)) return;
      if (slowness === undefined) {
        if (!to.write(data)) {
          from.pause();
          to.once("drain", () => from.resume());
        }
        return;
      }
      // Paused meanwhile, to keep the order.
      from.pause();
      const { everyMs, bytes = data.length } = slowness;
      let at = 0;
      const step = setInterval(() => {
        if (!silent(pair) && !to.destroyed) to.write(data.subarray(at, at + bytes));
        at += bytes;
        if (at < data.length && !to.destroyed) return;
        clearInterval(step);
        from.resume();
      }, everyMs);
    });
    from.on("end", () => {
      if (!silent(pair)) to.end();
    });
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    accepted += 1;
    const upstream = connect({ ...options.target(), allowHalfOpen: true });
    const pair: Pair = { client, upstream, forsaken: false };
    pairs.add(pair);
    pump(pair, client, upstream);
    pump(pair, upstream, client);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (silent(pair)) return;
        client.destroy();
        upstream.destroy();
        pairs.delete(pair);
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  function cut(which: (pair: Pair) => boolean = () => true): void {
    for (const pair of pairs) {
      if (!which(pair)) continue;
      // A socket whose end has been sent cannot be reset any more: it would never close.
      if (pair.client.writableEnded) pair.client.destroy();
      else pair.client.resetAndDestroy();
      pair.upstream.destroy();
      pairs.delete(pair);
    }
  }

  return {
    port: (server.address() as AddressInfo).port,
    get accepted() {
      return accepted;
    },
    get open() {
      return pairs.size;
    },
    cut: () => {
      cut();
    },
    hang: () => {
      hanging = true;
    },
    forsake: () => {
      for (const pair of pairs) pair.forsaken = true;
    },
    slow: (chunk) => {
      slowness = chunk;
    },
    heal: () => {
      slowness = undefined;
      if (!hanging) return;
      hanging = false;
      cut((pair) => !pair.forsaken);
    },
    close: async () => {
      hanging = false;
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
