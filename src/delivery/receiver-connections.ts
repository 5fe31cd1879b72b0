import { isIP, type OnReadOpts, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { connect } from "node:tls";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Dial, DialRequest } from "../network/guarded-dial.ts";
import { ReceiverConnection } from "./receiver-connection.ts";

/** Milliseconds. A changed rule or name counts within this time for connections that are kept busy. */
const CONNECTION_TTL = 60_000;
/** Milliseconds without a call after which a receiver may have closed a connection. */
const RESTED = 50;
/** Turns of the event loop. What has come, such as a connection's end, is read between one and the next. */
const TURNS = 2;
/**
 * What connections without TLS have read, while it is looked at. An answer is short, and Node would make 64 KiB for each
 * and give back what is left over.
 */
const READ = Buffer.allocUnsafeSlow(64 * 1024);
/** Milliseconds for the handshake. */
const TLS_TIMEOUT = 10_000;

/** How many connections may be without a call. */
export interface IdleLimits {
  inAll: number;
  perAccount: number;
}

/**
 * As many as calls in flight (`delivery-limits.ts`): whoever is busy finds all of its connections again. A receiver's
 * Keep-Alive holds one for 30 s, and with TLS it takes 75 KB and a descriptor, so that one account whose jobs call ever
 * new hosts would have the process killed at its memory's limit.
 */
const IDLE_LIMITS: IdleLimits = { inAll: 512, perAccount: 256 };

export interface ReceiverConnections {
  /**
   * The one used last, still warm, or a new one, which has to be there within the `timeoutMs` of its first call: how
   * many at once is the worker's limit. At once, when there is one that need not be waited for. Rejects with the
   * dial's error, or TLS's.
   */
  take(
    account: string,
    origin: string,
    timeoutMs: number,
  ): ReceiverConnection | Promise<ReceiverConnection>;
  /** Resolves when all are closed. */
  close(): Promise<void>;
}

interface Idle {
  connection: ReceiverConnection;
  /** Since when it has no call: monotonic milliseconds, and the turn. */
  since: number;
  turn: number;
}

/**
 * Open connections by account and origin: what one account may reach another may not, so a connection is
 * never used by an account for which it was not dialled. Those that are idle close by themselves within
 * seconds, or when there are too many, who has rested longest first; nothing is kept of them.
 */
export function createReceiverConnections(options: {
  dial: Dial;
  monotonic: Monotonic;
  idleLimits?: IdleLimits;
}): ReceiverConnections {
  const { dial, monotonic, idleLimits = IDLE_LIMITS } = options;
  /** Last used last. An origin without an idle connection has no entry. */
  const idle = new Map<string, Idle[]>();
  /** Those in `idle` and no other, in the order in which they were released; then the same by account. */
  const resting = new Set<ReceiverConnection>();
  const restingOf = new Map<string, Set<ReceiverConnection>>();
  const all = new Set<ReceiverConnection>();
  let closing = false;
  /** Of the event loop, counted while it matters: until `TURNS` after the last release. */
  let turn = 0;
  let countedTo = 0;

  function countTurn(): void {
    turn += 1;
    if (turn < countedTo) setImmediate(countTurn);
  }

  function release(account: string, key: string, connection: ReceiverConnection): void {
    if (turn >= countedTo) setImmediate(countTurn);
    countedTo = turn + TURNS;
    const waiting = idle.get(key);
    const released = { connection, since: monotonic(), turn };
    if (waiting) waiting.push(released);
    else idle.set(key, [released]);
    rest(account, connection);
  }

  /** Closes who is one too many now: never one that was handed out, which is removed in the same turn. */
  function rest(account: string, connection: ReceiverConnection): void {
    let own = restingOf.get(account);
    if (own === undefined) {
      own = new Set();
      restingOf.set(account, own);
    }
    own.add(connection);
    resting.add(connection);
    if (own.size > idleLimits.perAccount) closeFirst(own);
    if (resting.size > idleLimits.inAll) closeFirst(resting);
  }

  function forget(account: string, key: string, connection: ReceiverConnection): void {
    all.delete(connection);
    const waiting = idle.get(key);
    const place = waiting?.findIndex((kept) => kept.connection === connection) ?? -1;
    if (waiting !== undefined && place !== -1) remove(account, key, waiting, place);
  }

  function remove(account: string, key: string, waiting: Idle[], place: number): void {
    const [removed] = waiting.splice(place, 1);
    if (waiting.length === 0) idle.delete(key);
    if (removed === undefined) return;
    resting.delete(removed.connection);
    const own = restingOf.get(account);
    own?.delete(removed.connection);
    if (own?.size === 0) restingOf.delete(account);
  }

  /** An idle one that has been without a call for some turns and not for long: whatever followed its answer was read. */
  function warmOne(account: string, key: string, now: number): ReceiverConnection | undefined {
    const waiting = idle.get(key);
    if (waiting === undefined) return undefined;
    for (let place = waiting.length - 1; place >= 0; place -= 1) {
      const kept = waiting[place];
      // Those before it have rested for longer.
      if (kept === undefined || now - kept.since >= RESTED) return undefined;
      if (turn - kept.turn < TURNS || now - kept.connection.openedAt > CONNECTION_TTL) continue;
      remove(account, key, waiting, place);
      return kept.connection;
    }
    return undefined;
  }

  /** An idle one whose receiver has not closed it, as far as can be known here. */
  async function liveOne(account: string, key: string): Promise<ReceiverConnection | undefined> {
    for (;;) {
      const waiting = idle.get(key);
      const kept = waiting?.at(-1);
      if (waiting === undefined || kept === undefined) return undefined;
      const { connection } = kept;
      remove(account, key, waiting, waiting.length - 1);
      if (monotonic() - connection.openedAt > CONNECTION_TTL) {
        connection.close();
        continue;
      }
      for (let n = 0; n < TURNS; n += 1) await nextTurn();
      if (!connection.gone) return connection;
    }
  }

  async function open(
    account: string,
    origin: string,
    key: string,
    timeoutMs: number,
  ): Promise<ReceiverConnection> {
    const { protocol, hostname: host, port: given } = new URL(origin);
    // Before the rules are read.
    const openedAt = monotonic();
    const port = Number(given) || (protocol === "https:" ? 443 : 80);
    const request: DialRequest = { account, protocol: "webhook", host, port, timeoutMs };
    // It is there before anything is read: `dial` answers in the turn in which it has connected.
    let connection: ReceiverConnection | undefined;
    const onread: OnReadOpts = {
      buffer: READ,
      callback: (bytes) => {
        connection?.received(READ.subarray(0, bytes));
        return true;
      },
    };
    const socket =
      protocol === "https:"
        ? await secured(await dial(request), host, timeoutMs)
        : await dial({ ...request, onread });
    if (closing) {
      socket.destroy();
      throw new Error("connections are not wanted any more");
    }
    connection = new ReceiverConnection({
      socket,
      openedAt,
      released: (released) => {
        release(account, key, released);
      },
      closed: (closed) => {
        forget(account, key, closed);
      },
    });
    all.add(connection);
    return connection;
  }

  async function liveOrNew(
    account: string,
    origin: string,
    key: string,
    timeoutMs: number,
  ): Promise<ReceiverConnection> {
    return (await liveOne(account, key)) ?? (await open(account, origin, key, timeoutMs));
  }

  return {
    take: (account, origin, timeoutMs) => {
      const key = `${account} ${origin}`;
      return warmOne(account, key, monotonic()) ?? liveOrNew(account, origin, key, timeoutMs);
    },
    close: async () => {
      closing = true;
      await Promise.all(Array.from(all, (connection) => connection.end()));
    },
  };
}

/** It says so itself, and is forgotten. */
function closeFirst(connections: ReadonlySet<ReceiverConnection>): void {
  const [first] = connections;
  first?.close();
}

/**
 * TLS on the checked connection, with the original name for SNI and the certificate. Rejects with an error that has
 * TLS's code.
 */
function secured(socket: Socket, host: string, timeoutMs: number): Promise<Socket> {
  // Without the dot that a complete name may end with (RFC 6066, 3).
  const name = host.replace(/^\[|\]$|\.$/g, "");
  return new Promise((resolve, reject) => {
    const upgraded = connect({
      socket,
      host: name,
      // An address is no name (RFC 6066, 3); the certificate is compared with it all the same.
      ...(isIP(name) ? {} : { servername: name }),
      ALPNProtocols: ["http/1.1"],
    });
    const timer = setTimeout(
      () => {
        upgraded.destroy(
          Object.assign(new Error("no TLS in time"), { code: "TLS_HANDSHAKE_TIMEOUT" }),
        );
      },
      Math.min(TLS_TIMEOUT, timeoutMs),
    );
    // It stays: until somebody else listens, an error would be nobody's.
    upgraded.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    upgraded.once("secureConnect", () => {
      clearTimeout(timer);
      resolve(upgraded);
    });
  });
}
