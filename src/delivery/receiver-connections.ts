import { isIP, type OnReadOpts, type Socket } from "node:net";
import { connect } from "node:tls";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { Dial, DialRequest } from "../network/guarded-dial.ts";
import { afterReading, READ_TURNS, ReceiverConnection } from "./receiver-connection.ts";

/**
 * Milliseconds that a connection is used at most: within this time a changed rule or DNS name counts for busy ones
 * too.
 */
const CONNECTION_TTL = 60_000;
/** Milliseconds without a call after which the receiver may have closed a connection, so that it is checked first. */
const RESTED = 50;
/**
 * Shared by all connections without TLS, for the bytes just read. Answers are short, and Node would allocate 64 KiB for
 * each read and give back the rest.
 */
const READ = Buffer.allocUnsafeSlow(64 * 1024);
/** Milliseconds for which a connection that is being opened ahead is better than a new one. */
const ADOPTED = 1_000;
/** Milliseconds for the handshake. */
const TLS_TIMEOUT = 10_000;

/** How many connections may be without a call. */
export interface IdleLimits {
  inAll: number;
  perAccount: number;
}

/**
 * As many as calls in flight by default (`delivery-limits.ts`), so that a busy account finds its connections again. No
 * more where more calls are allowed: a receiver's Keep-Alive holds a connection for up to 30 s, and with TLS it takes
 * 75 KB and a descriptor, so that one account that keeps calling new hosts would make the process run out of memory.
 */
const IDLE_LIMITS: IdleLimits = { inAll: 512, perAccount: 256 };

export interface ReceiverConnections {
  /**
   * The connection used last that is still open, or a new one, which must be open within `timeoutMs`. Not a promise
   * when a warm one is at hand. How many are taken at a time is limited by the worker, not here. Rejects with the
   * error of the dial or of TLS.
   */
  take(
    account: string,
    origin: string,
    timeoutMs: number,
  ): ReceiverConnection | Promise<ReceiverConnection>;
  /**
   * Opens connections until `count` are there, or on their way, for calls that begin soon. No more than find a place
   * among the idle ones: they displace none. A call gets one that is still being opened, and its failure; nobody hears of
   * other failures.
   */
  warmUp(account: string, origin: string, count: number): void;
  /** Resolves when all are closed. */
  close(): Promise<void>;
}

/** A connection that is being opened ahead, since a moment in monotonic milliseconds. */
interface Opening {
  account: string;
  key: string;
  connecting: Promise<ReceiverConnection>;
  since: number;
}

interface Idle {
  connection: ReceiverConnection;
  /** Since when it has no call: in monotonic milliseconds, and as a turn of the event loop. */
  since: number;
  turn: number;
  /** It was opened ahead, and has had no call yet. */
  fresh: boolean;
}

/**
 * Open connections by account and origin: what one account may reach another may not, so a connection is never used
 * by an account for which it was not dialled. Idle ones close by themselves within seconds, or when there are too
 * many, the longest idle first; closed ones leave nothing behind.
 */
export function createReceiverConnections(options: {
  dial: Dial;
  monotonic: Monotonic;
  idleLimits?: IdleLimits;
}): ReceiverConnections {
  const { dial, monotonic, idleLimits = IDLE_LIMITS } = options;
  /** Last used last. An origin without an idle connection has no entry. */
  const idle = new Map<string, Idle[]>();
  /** All connections in `idle`, in the order in which they were released; `restingOf`: the same by account. */
  const resting = new Set<ReceiverConnection>();
  const restingOf = new Map<string, Set<ReceiverConnection>>();
  const all = new Set<ReceiverConnection>();
  /** Those that no call waits for. */
  const opening = new Set<Opening>();
  let closing = false;
  /** Turns of the event loop, counted only until `READ_TURNS` after the last release. */
  let turn = 0;
  let countedTo = 0;

  function countTurn(): void {
    turn += 1;
    if (turn < countedTo) setImmediate(countTurn);
  }

  function release(
    account: string,
    key: string,
    connection: ReceiverConnection,
    fresh = false,
  ): void {
    if (turn >= countedTo) setImmediate(countTurn);
    countedTo = turn + READ_TURNS;
    const waiting = idle.get(key);
    const released = { connection, since: monotonic(), turn, fresh };
    if (waiting) waiting.push(released);
    else idle.set(key, [released]);
    rest(account, connection);
  }

  /** Closes an idle connection when this one is one too many. One that is handed out has left these sets already. */
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

  /**
   * An idle one that was used a short time, but at least `READ_TURNS`, ago: bytes or an end after its answer have been
   * read.
   */
  function warmOne(account: string, key: string, now: number): ReceiverConnection | undefined {
    const waiting = idle.get(key);
    if (waiting === undefined) return undefined;
    for (let place = waiting.length - 1; place >= 0; place -= 1) {
      const kept = waiting[place];
      // Those before it have rested for longer.
      if (kept === undefined || now - kept.since >= RESTED || kept.fresh) return undefined;
      if (turn - kept.turn < READ_TURNS || now - kept.connection.openedAt > CONNECTION_TTL)
        continue;
      remove(account, key, waiting, place);
      return kept.connection;
    }
    return undefined;
  }

  /** An idle one that its receiver has not closed, after some turns in which the end would have been read. */
  async function liveOne(account: string, key: string): Promise<ReceiverConnection | undefined> {
    for (;;) {
      const waiting = idle.get(key);
      if (waiting === undefined) return undefined;
      // Of those that were opened ahead the first: a receiver that serves one connection after the other waits for it.
      const place = waiting.findLastIndex(({ fresh }) => !fresh) + 1;
      const taken = Math.min(place, waiting.length - 1);
      const connection = waiting[taken]?.connection;
      if (connection === undefined) return undefined;
      remove(account, key, waiting, taken);
      if (monotonic() - connection.openedAt > CONNECTION_TTL) {
        connection.close();
        continue;
      }
      await new Promise<void>((resolve) => {
        afterReading(resolve);
      });
      if (!connection.gone) return connection;
    }
  }

  async function connected(
    account: string,
    origin: string,
    key: string,
    timeoutMs: number,
  ): Promise<ReceiverConnection> {
    const { protocol, hostname: host, port: given } = new URL(origin);
    // Before the destination rules are read: the connection's age is also that of the rules.
    const openedAt = monotonic();
    const port = Number(given) || (protocol === "https:" ? 443 : 80);
    const request: DialRequest = { account, protocol: "webhook", host, port, timeoutMs };
    // Set before anything is read: `dial` resolves in the turn in which it has connected.
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
    return (
      (await liveOne(account, key)) ??
      (await (adopt(key) ?? connected(account, origin, key, timeoutMs)))
    );
  }

  /** One that is being opened, and has not been for long; whoever takes it waits for it alone. */
  function adopt(key: string): Promise<ReceiverConnection> | undefined {
    for (const one of opening) {
      if (one.key !== key || monotonic() - one.since > ADOPTED) continue;
      opening.delete(one);
      return one.connecting;
    }
    return undefined;
  }

  async function openAhead(account: string, origin: string, key: string): Promise<void> {
    // Without the time limit of a job: it may be another one's call that takes the connection.
    const connecting = connected(account, origin, key, Infinity);
    const one = { account, key, connecting, since: monotonic() };
    opening.add(one);
    try {
      const connection = await connecting;
      // Otherwise a call has taken it.
      if (opening.delete(one) && !connection.gone) release(account, key, connection, true);
    } catch {
      // The call that has taken it hears of it.
      opening.delete(one);
    }
  }

  return {
    take: (account, origin, timeoutMs) => {
      const key = keyOf(account, origin);
      return warmOne(account, key, monotonic()) ?? liveOrNew(account, origin, key, timeoutMs);
    },
    warmUp: (account, origin, count) => {
      if (closing) return;
      const key = keyOf(account, origin);
      const own = Array.from(opening).filter((one) => one.account === account);
      const there = (idle.get(key)?.length ?? 0) + own.filter((one) => one.key === key).length;
      const places = Math.min(
        idleLimits.perAccount - (restingOf.get(account)?.size ?? 0) - own.length,
        idleLimits.inAll - resting.size - opening.size,
      );
      for (let more = Math.min(count - there, places); more > 0; more -= 1)
        void openAhead(account, origin, key);
    },
    close: async () => {
      closing = true;
      await Promise.all(Array.from(all, (connection) => connection.end()));
    },
  };
}

function keyOf(account: string, origin: string): string {
  return `${account} ${origin}`;
}

/** The connection reports that it was closed, and is forgotten then. */
function closeFirst(connections: ReadonlySet<ReceiverConnection>): void {
  const [first] = connections;
  first?.close();
}

/**
 * TLS on the dialled connection, with the original host name for SNI and the certificate. Rejects with an error
 * that has the code of the TLS failure.
 */
function secured(socket: Socket, host: string, timeoutMs: number): Promise<Socket> {
  // Without the brackets of IPv6, and without the dot that a complete name may end with (RFC 6066, 3).
  const name = host.replace(/^\[|\]$|\.$/g, "");
  return new Promise((resolve, reject) => {
    const upgraded = connect({
      socket,
      host: name,
      // SNI takes names only (RFC 6066, 3); the certificate is compared with an address all the same.
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
    // This listener stays: an error that comes before the connection has its own would end the process.
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
