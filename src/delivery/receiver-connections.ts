import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { callbackify } from "node:util";
import { buildConnector, Client } from "undici";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Dial } from "../network/guarded-dial.ts";

/** Milliseconds. A changed rule or name counts within this time for connections that are kept busy. */
const CONNECTION_TTL = 60_000;
/** Milliseconds without a call after which a receiver may have closed a connection. */
const RESTED = 50;
/** Milliseconds for the handshake. */
const TLS_TIMEOUT = 10_000;

/** Bytes. An answer that is read for its status has mostly less. */
const PIECE = 1_024;

const CONTINUE = Buffer.from("HTTP/1.1 100");
/** The last digit of 102 Processing. */
const TWO = "2".charCodeAt(0);

/** One connection for one call at a time. */
export interface Connection {
  readonly client: Client;
  /** `reusable`: the answer has been read to its end; otherwise the connection is closed. */
  release(reusable: boolean): void;
}

export interface ReceiverConnections {
  /**
   * The one used last, still warm, or a new one, which has to be there within the `timeoutMs` of its first call: how
   * many at once is the worker's limit.
   */
  take(account: string, origin: string, timeoutMs: number): Promise<Connection>;
  close(): Promise<void>;
}

interface Kept {
  client: Client;
  openedAt: number;
  /** Since when it has no call. */
  freeAt: number;
  /** It has lost its socket: not to be kept, should a call in flight have got it another. */
  gone: boolean;
}

/**
 * Open connections by account and origin: what one account may reach another may not, so a connection is
 * never used by an account for which it was not dialled. Those that are idle close by themselves within
 * seconds, and nothing is kept of them.
 */
export function createReceiverConnections(options: {
  dial: Dial;
  monotonic: Monotonic;
}): ReceiverConnections {
  const { dial, monotonic } = options;
  const connect = callbackify(dial);
  const upgrade = buildConnector({ allowH2: false, timeout: TLS_TIMEOUT });
  /** Last used last. An origin without an idle connection has no entry. */
  const idle = new Map<string, Kept[]>();
  const all = new Set<Kept>();

  function open(account: string, origin: string, key: string, timeoutMs: number): Kept {
    const client = new Client(origin, {
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: 16 * 1024,
      // Below the 5 s after which a Node server closes: a POST into a closing connection is lost.
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 30_000,
      connect: (target, callback) => {
        const secure = target.protocol === "https:";
        const port = Number(target.port) || (secure ? 443 : 80);
        const to = {
          account,
          protocol: "webhook",
          host: target.hostname,
          port,
          timeoutMs,
        } as const;
        connect(to, (error, socket) => {
          if (error) callback(error, null);
          // TLS on the checked connection, with the original name for SNI and the certificate.
          else if (secure)
            upgrade({ ...target, httpSocket: socket }, (failed, secured) => {
              if (failed) callback(failed, null);
              else callback(null, inPieces(secured));
            });
          else callback(null, inPieces(socket));
        });
      },
    });
    const now = monotonic();
    const kept: Kept = { client, openedAt: now, freeAt: now, gone: false };
    all.add(kept);
    client.on("disconnect", () => {
      kept.gone = true;
      const waiting = idle.get(key);
      const place = waiting?.indexOf(kept) ?? -1;
      if (waiting === undefined || place === -1) return;
      waiting.splice(place, 1);
      if (waiting.length === 0) idle.delete(key);
      discard(kept);
    });
    return kept;
  }

  function discard(kept: Kept): void {
    all.delete(kept);
    kept.client.destroy().catch(() => undefined);
  }

  function idleOne(key: string): Kept | undefined {
    const waiting = idle.get(key);
    if (waiting === undefined) return undefined;
    const oldest = monotonic() - CONNECTION_TTL;
    let kept = waiting.pop();
    while (kept !== undefined && kept.openedAt < oldest) {
      discard(kept);
      kept = waiting.pop();
    }
    if (waiting.length === 0) idle.delete(key);
    return kept;
  }

  /** An idle one whose receiver has not closed it, as far as can be known here. */
  async function liveOne(key: string): Promise<Kept | undefined> {
    for (let kept = idleOne(key); kept !== undefined; kept = idleOne(key)) {
      if (monotonic() - kept.freeAt < RESTED) return kept;
      // What has come there, such as its end, is read between one turn and the next. undici waits for this one's
      // end only, and a call that it is given before fails of what is read then.
      await setImmediate();
      await setImmediate();
      if (!kept.gone && all.has(kept)) return kept;
      discard(kept);
    }
    return undefined;
  }

  return {
    take: async (account, origin, timeoutMs) => {
      const key = `${account} ${origin}`;
      const kept = (await liveOne(key)) ?? open(account, origin, key, timeoutMs);
      return {
        client: kept.client,
        release: (reusable) => {
          kept.freeAt = monotonic();
          const waiting = idle.get(key);
          if (!reusable || kept.gone || !all.has(kept)) discard(kept);
          else if (waiting) waiting.push(kept);
          else idle.set(key, [kept]);
        },
      };
    },
    close: async () => {
      idle.clear();
      const open = Array.from(all, ({ client }) => client);
      all.clear();
      await Promise.allSettled(open.map((client) => client.destroy()));
    },
  };
}

/**
 * undici reads on through all that has come, and makes an error, stack and all, of each header beyond its limit:
 * 64 KiB of short ones, from one receiver, held up everybody for 200 ms. So it is handed little at a time, and
 * nothing any more once it has given up.
 */
function inPieces(socket: Socket): Socket {
  const read = socket.read.bind(socket) as (size?: number) => unknown;
  const takeContinue = continueTaker();
  socket.read = (size) => {
    if (socket.destroyed) return null;
    const piece = read(size ?? (Math.min(PIECE, socket.readableLength) || undefined));
    if (Buffer.isBuffer(piece)) takeContinue(piece);
    return piece;
  };
  return socket;
}

/**
 * undici hangs up on a "100 Continue" that was not asked for, which a client has to pass over (RFC 9110, 15.2.1):
 * the receiver goes on with a call that we would record as failed. It passes over 102, and of a body that has these
 * words nobody reads anything. They may be spread over several pieces.
 */
function continueTaker(): (piece: Buffer) => void {
  let matched = 0;
  return (piece) => {
    for (let at = 0; at < piece.length; at += 1) {
      // None of it but its first begins it anew.
      if (piece[at] !== CONTINUE[matched]) matched = 0;
      if (piece[at] === CONTINUE[matched]) matched += 1;
      if (matched < CONTINUE.length) continue;
      piece[at] = TWO;
      matched = 0;
    }
  };
}
