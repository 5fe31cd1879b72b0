import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A wire that can be damaged, between one process and a server that may come back elsewhere. */
export interface TcpProxy {
  readonly port: number;
  /** Resets every connection; new ones work. */
  cut(): void;
  /** From now on nothing passes, new connections included, and nobody is told. */
  hang(): void;
  /** Each chunk arrives so many milliseconds late. */
  slow(ms: number): void;
  /** Works again. Connections that hung have lost bytes: they are reset. */
  heal(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(options: {
  /** Asked for each connection. */
  target: () => { host: string; port: number };
}): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let hanging = false;
  let delay = 0;

  function pump(from: Socket, to: Socket): void {
    from.on("data", (data: Buffer) => {
      if (hanging) return;
      if (delay === 0) {
        if (!to.write(data)) {
          from.pause();
          to.once("drain", () => from.resume());
        }
        return;
      }
      // Paused meanwhile, so that the order stays.
      from.pause();
      setTimeout(() => {
        if (!hanging && !to.destroyed) to.write(data);
        from.resume();
      }, delay);
    });
    from.on("end", () => {
      if (!hanging) to.end();
    });
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ ...options.target(), allowHalfOpen: true });
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
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  function cut(): void {
    for (const [client, upstream] of pairs) {
      // A socket whose end was sent cannot be reset any more: it would neither close nor go away.
      if (client.writableEnded) client.destroy();
      else client.resetAndDestroy();
      upstream.destroy();
    }
    pairs.clear();
  }

  return {
    port: (server.address() as AddressInfo).port,
    cut,
    hang: () => {
      hanging = true;
    },
    slow: (ms) => {
      delay = ms;
    },
    heal: () => {
      delay = 0;
      if (!hanging) return;
      hanging = false;
      cut();
    },
    close: async () => {
      hanging = false;
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
