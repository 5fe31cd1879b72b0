import type { Socket } from "node:net";

/** Milliseconds without a call. Below the 5 s after which a Node server closes: a POST into a closing one is lost. */
const KEPT = 4_000;
/** Milliseconds, when the receiver says how long it keeps it. */
const KEPT_AT_MOST = 30_000;
/** Milliseconds for the way: closed by us before the receiver does. */
const KEPT_LESS = 2_000;

/** Who hears of a connection while it has it: bytes, until one of the others, once. */
export interface Caller {
  /** Of no use after that: other connections read into the same bytes. */
  received(piece: Buffer): void;
  /** The receiver sends nothing more. */
  closed(): void;
  failed(error: Error): void;
}

/**
 * One connection for one call at a time. What comes without a call closes it: it is not an answer to the next one. Its
 * listeners are there once for all calls.
 */
export class ReceiverConnection {
  /** Milliseconds on the monotonic clock. */
  readonly openedAt: number;
  /** Closed, or about to be: of no use for a call. */
  gone = false;
  readonly #socket: Socket;
  readonly #released: (connection: ReceiverConnection) => void;
  readonly #closed: (connection: ReceiverConnection) => void;
  #caller: Caller | undefined;
  #kept = KEPT;

  constructor(options: {
    /** Connected. Its owner is this from now on. */
    socket: Socket;
    openedAt: number;
    /** It can be used again. */
    released: (connection: ReceiverConnection) => void;
    /** It never can; said once. */
    closed: (connection: ReceiverConnection) => void;
  }) {
    const { socket, openedAt, released, closed } = options;
    this.#socket = socket;
    this.openedAt = openedAt;
    this.#released = released;
    this.#closed = closed;
    socket.on("data", (piece: Buffer) => {
      this.received(piece);
    });
    socket.on("end", () => {
      if (this.#caller) this.#caller.closed();
      else this.close();
    });
    socket.on("error", (error) => {
      this.#fail(error);
    });
    socket.on("close", () => {
      this.#fail(new Error("the connection was closed"));
    });
    readBeforeFailing(socket);
    // Reading and writing begin it anew, so that it is counted from the last answer.
    socket.setTimeout(this.#kept);
    socket.on("timeout", () => {
      if (!this.#caller) this.close();
    });
  }

  /** For what does not come as the socket's "data". */
  received(piece: Buffer): void {
    if (this.#caller) this.#caller.received(piece);
    else this.close();
  }

  /** Writes all of a request; the caller hears what comes of it until it releases the connection. */
  send(request: string | Buffer, caller: Caller): void {
    this.#caller = caller;
    if (this.#socket.destroyed) this.#fail(new Error("the connection was closed"));
    else this.#socket.write(request, "latin1");
  }

  /**
   * The call is over. `reusable`: the answer has been read to its end, and the receiver keeps the connection, for so
   * many seconds if it says so; otherwise it is closed.
   */
  release(reusable: boolean, keepAlive: number | null = null): void {
    this.#caller = undefined;
    const kept = keepAlive === null ? KEPT : Math.min(keepAlive * 1_000 - KEPT_LESS, KEPT_AT_MOST);
    // An answer may come before all of the request has been read: the rest of that would still be sent.
    if (!reusable || this.gone || kept <= 0 || this.#socket.writableLength > 0) {
      this.close();
      return;
    }
    if (kept !== this.#kept) {
      this.#kept = kept;
      this.#socket.setTimeout(kept);
    }
    this.#released(this);
  }

  close(): void {
    this.#socket.destroy();
    if (this.gone) return;
    this.gone = true;
    this.#closed(this);
  }

  /** Closes it, and resolves when that is done. */
  end(): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.once("close", () => {
        resolve();
      });
      this.close();
    });
  }

  #fail(error: Error): void {
    this.close();
    const caller = this.#caller;
    this.#caller = undefined;
    caller?.failed(error);
  }
}

/**
 * A write that fails makes Node destroy its socket at once, with what has come and has not been read: the answer of a
 * receiver that closed before it had read the request. From now on a failure is heard of when that has been read.
 */
function readBeforeFailing(socket: Socket): void {
  const write = socket["_write"].bind(socket);
  socket["_write"] = (bytes, encoding, done) => {
    write(bytes, encoding, (error) => {
      // One turn may be over before anything is read; in the next one, all is.
      if (error) setImmediate(() => setImmediate(done, error));
      else done();
    });
  };
}
