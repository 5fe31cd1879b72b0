import type { Socket } from "node:net";

/**
 * Milliseconds for which a connection is kept without a call: less than the 5 s after which a Node server closes it,
 * because a POST on a connection that is being closed is lost.
 */
const KEPT = 4_000;
/** The most, in milliseconds, when the receiver says for how long it keeps the connection. */
const KEPT_AT_MOST = 30_000;
/** How many milliseconds earlier than the receiver says it is closed: the last request takes time to get there. */
const KEPT_LESS = 2_000;

/** Turns of the event loop after which everything that had come, such as a connection's end, has been read. */
export const READ_TURNS = 2;

/** Calls back when everything that had come has been read. */
export function afterReading(callback: () => void, turns = READ_TURNS): void {
  if (turns === 0) callback();
  else setImmediate(afterReading, callback, turns - 1);
}

/** Hears of a connection while it has it: `received` any number of times, then one of the others, once. */
export interface ResponseHandler {
  /** The bytes are valid during the call only: other connections read into the same buffer. */
  received(piece: Buffer): void;
  /** The receiver sends nothing more. */
  closed(): void;
  failed(error: Error): void;
}

/**
 * One connection for one call at a time. Bytes that come without a call close it: they would pass for the answer to the
 * next one. Its listeners are added once, for all calls.
 */
export class ReceiverConnection {
  /** Milliseconds on the monotonic clock. */
  readonly openedAt: number;
  /** Closed, or about to be: of no use for a call. */
  gone = false;
  readonly #socket: Socket;
  readonly #released: (connection: ReceiverConnection) => void;
  readonly #closed: (connection: ReceiverConnection) => void;
  #handler: ResponseHandler | undefined;
  #kept = KEPT;

  constructor(options: {
    /** Connected. This object owns it from now on. */
    socket: Socket;
    openedAt: number;
    /** Called whenever it can be used again. */
    released: (connection: ReceiverConnection) => void;
    /** Called once, when it cannot be used any more. */
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
      if (this.#handler) this.#handler.closed();
      else this.close();
    });
    socket.on("error", (error) => {
      this.#fail(error);
    });
    socket.on("close", () => {
      this.#fail(new Error("the connection was closed"));
    });
    readBeforeFailing(socket);
    // Reading and writing restart this timeout, so that it counts from the last answer.
    socket.setTimeout(this.#kept);
    socket.on("timeout", () => {
      if (!this.#handler) this.close();
    });
  }

  /** For bytes that do not come as the socket's "data" (`OnReadOpts`). */
  received(piece: Buffer): void {
    if (this.#handler) this.#handler.received(piece);
    else this.close();
  }

  /** Writes all of a request; the handler hears what comes of it until it releases the connection. */
  send(request: string | Buffer, handler: ResponseHandler): void {
    this.#handler = handler;
    if (this.#socket.destroyed) this.#fail(new Error("the connection was closed"));
    else this.#socket.write(request, "latin1");
  }

  /**
   * The call is over. `reusable`: the answer has been read to its end, and the receiver keeps the connection, for
   * `keepAlive` seconds if it says so. Otherwise it is closed.
   */
  release(reusable: boolean, keepAlive: number | null = null): void {
    this.#handler = undefined;
    const kept = keepAlive === null ? KEPT : Math.min(keepAlive * 1_000 - KEPT_LESS, KEPT_AT_MOST);
    // An answer may come before the whole request has been written: the rest of it would still be sent.
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
    const handler = this.#handler;
    this.#handler = undefined;
    handler?.failed(error);
  }
}

/**
 * When a write fails, Node destroys the socket at once, with all bytes that have come and were not read: the answer
 * of a receiver that closed before it had read the request. This delays the failure of a write until they have been
 * read.
 */
function readBeforeFailing(socket: Socket): void {
  const write = socket["_write"].bind(socket);
  // A stream has one write under way at a time.
  let done: (error?: Error | null) => void;
  const written = (error?: Error | null): void => {
    if (error) afterReading(done.bind(undefined, error));
    else done();
  };
  socket["_write"] = (bytes, encoding, callback) => {
    done = callback;
    write(bytes, encoding, written);
  };
}
