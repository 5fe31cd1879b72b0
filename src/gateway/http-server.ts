import {
  createServer,
  maxHeaderSize,
  STATUS_CODES,
  type Server,
  type ServerResponse,
  type IncomingMessage,
} from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Timers } from "../domain/ports/clock.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { ApiError, errorAnswer } from "./errors.ts";

const HEADERS_TIMEOUT_MS = 15_000;
/** A whole request, body included: 24 MiB over a slow line. */
const REQUEST_TIMEOUT_MS = 120_000;
/** Longer than load balancers keep idle connections (60 s is common), so that they close first. */
const KEEP_ALIVE_MS = 65_000;

/** Node's error code for a request that took longer than the times above. */
const REQUEST_TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT";

/** How long answers may take once the server has begun to end: the process has 30 s for all of its parts. */
export const DRAIN_MS = 25_000;

/** How long a connection may stay quiet when the server is ending, or after the connection was refused. */
const LINGER_MS = 500;

/** Time without a byte either way. No answer takes as long, so that the client must have stopped reading. */
const STALLED_MS = 300_000;

/** Requests of one connection without an answer yet: each costs a client little, and us some kilobytes. */
const MOST_PIPELINED = 100;

/** Requests beyond those are ignored. With more of them the connection is cut: no client sends so many at a time. */
const MOST_IGNORED = 1_000;

const TOO_MANY = new ApiError(
  "rate_limited",
  `${MOST_PIPELINED} requests of this connection wait for their answers: send no more before they have come`,
  { retryAfterSeconds: 1 },
);

export interface HttpServer {
  server: Server;
  /**
   * Stops accepting; resolves when the last answer is out. An idle connection stays open for as long as a request
   * may already be on its way on it, and ends with the answer to that. Clients that are still sending a request or
   * waiting for an answer after 25 s are cut off.
   */
  end: (timers: Timers) => Promise<void>;
}

interface Connection {
  /** Answers that are not out yet, in the order of their requests. */
  answers: Set<ServerResponse>;
  /** The connection ends with one of `answers`: later requests are not answered. */
  ending: boolean;
  /** The connection ends with an answer to what never became a request. */
  refused: boolean;
}

/**
 * Node's server with limits, and JSON for what never becomes a request: broken HTTP, headers that are
 * too large or too slow, an `Expect` that nobody can meet.
 */
export function createHttpServer(options: {
  handle: (req: IncomingMessage, res: ServerResponse) => unknown;
  metrics: Metrics;
  stalledMs?: number;
}): HttpServer {
  const sockets = new Set<Socket>();
  const connections = new WeakMap<Duplex, Connection>();
  /** Requests whose time to arrive begins with their turn: until then nobody reads their bodies. */
  const waited = new WeakSet<IncomingMessage>();
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Checked by the envelope, which answers in JSON; Node would answer with an empty body.
      requireHostHeader: false,
    },
    (req, res) => {
      take(req, res, () => options.handle(req, res));
    },
  );
  server.timeout = options.stalledMs ?? STALLED_MS;
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    lingerForRequest(socket);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const latest = [...connectionOf(socket).answers].at(-1)?.req;
    // Node counts such a request's time from its beginning, `timeFromNow` from its turn.
    const timedHere = latest?.complete === false && waited.has(latest);
    if (error.code !== REQUEST_TIMEOUT || !timedHere) broken(socket, error.code);
  });
  // Without a listener Node closes the connection without an answer. With one, Node leaves the socket to us.
  server.on("connect", (_req, socket: Duplex) => {
    const destroy = () => socket.destroy();
    socket.on("error", destroy).on("timeout", destroy).resume();
    turnDown(socket, new ApiError("method_not_allowed", "CONNECT is not allowed here: no proxy"));
  });
  server.on("checkExpectation", (req, res) => {
    take(req, res, () => {
      answerWithError(
        res,
        new ApiError(
          "expectation_failed",
          "this Expect header is not supported: send 100-continue or none",
        ),
      );
    });
    connectionOf(req.socket).ending = true;
  });
  return { server, end };

  function connectionOf(socket: Duplex): Connection {
    const known = connections.get(socket) ?? { answers: new Set(), ending: false, refused: false };
    connections.set(socket, known);
    return known;
  }

  /** Works on a request when it is its turn: after those before it on its connection. */
  function take(req: IncomingMessage, res: ServerResponse, work: () => void): void {
    const connection = connectionOf(req.socket);
    const { answers } = connection;
    const before = [...answers].at(-1);
    answers.add(res);
    res.once("close", () => answers.delete(res));
    if (connection.ending) {
      if (answers.size > MOST_PIPELINED + MOST_IGNORED) req.socket.destroy();
      return;
    }
    if (answers.size > MOST_PIPELINED) {
      // Node sends this answer after those to the requests before it, which must still arrive.
      connection.ending = true;
      answerWithError(res, TOO_MANY);
      return;
    }
    // When the server is ending, answers to new requests close their connections: otherwise a busy client would use
    // its own for ever. After an answer that was under way before, idle connections are closed only after a pause:
    // the client's next request may be in the air already.
    if (!server.listening) res.shouldKeepAlive = false;
    res.once("close", () => {
      if (!server.listening) setTimeout(() => onceRead(closeIdle), LINGER_MS).unref();
    });
    if (before) workAfter(before, req, res, work);
    else work();
  }

  async function end(timers: Timers): Promise<void> {
    const quiet = timers.after(LINGER_MS, () => {
      onceRead(() => {
        closeIdle();
        // For Node a connection is not idle before its first request. Browsers open some ahead and never use them.
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      });
    });
    const patience = timers.after(DRAIN_MS, () => server.closeAllConnections());
    try {
      await new Promise<void>((resolve, reject) => {
        // An HTTP server's own `close` closes idle connections at once, and requests in the air are lost.
        NetServer.prototype.close.call(server, (error) => {
          if (error) reject(error);
          else resolve();
        });
      });
    } finally {
      quiet.cancel();
      patience.cancel();
    }
  }

  /**
   * An answer that ends its connection may be sent before the whole request has arrived. If Node closed the socket
   * then, the client's next bytes would be answered with a reset, and a client that only reads after it has sent
   * everything would lose the answer. So it may go on sending, for as long as any request may take (RFC 9112, 9.6).
   */
  function lingerForRequest(socket: Socket): void {
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      const [answered] = connectionOf(socket).answers;
      if (answered?.req.complete !== false) {
        destroySoon();
        return;
      }
      socket.end();
      answered.req.once("end", destroySoon).resume();
    };
  }

  /**
   * Closes nothing while an answer is composed but not out: for Node its connection is idle. When that answer is out,
   * this is called again.
   */
  function closeIdle(): void {
    for (const socket of sockets)
      for (const answer of connectionOf(socket).answers) if (answer.writableEnded) return;
    server.closeIdleConnections();
  }

  /**
   * Works on a request when the answer before it is out. Otherwise a client that reads no answers could have a hundred
   * large ones in our memory.
   */
  function workAfter(
    before: ServerResponse,
    req: IncomingMessage,
    res: ServerResponse,
    work: () => void,
  ): void {
    waited.add(req);
    before.once("close", () => {
      // Without a socket: the connection has ended, or ends with the answer before this one.
      if (!res.socket) return;
      if (!req.complete) timeFromNow(req);
      work();
    });
  }

  /** Gives a request its whole time from now on: Node's ran while nobody read the body, and is reported only once. */
  function timeFromNow(req: IncomingMessage): void {
    const late = setTimeout(() => {
      if (!req.complete) broken(req.socket, REQUEST_TIMEOUT);
    }, REQUEST_TIMEOUT_MS).unref();
    req.once("close", () => clearTimeout(late));
  }

  function broken(socket: Duplex, code: string | undefined): void {
    if (code === "ECONNRESET") socket.destroy();
    else if (!connectionOf(socket).refused) turnDown(socket, parseError(code));
  }

  /** Answers what never becomes a request. Nothing after it on its connection becomes one either. */
  function turnDown(socket: Duplex, error: ApiError): void {
    const connection = connectionOf(socket);
    const [first] = connection.answers;
    // The client is gone, or an answer is half sent and our bytes would end up inside it. Only the first can be: Node
    // begins none before those ahead of it are out.
    if (!socket.writable || first?.headersSent === true) {
      socket.destroy();
      return;
    }
    // Complete requests before it will still be answered. The client would take our answer for one to them, and a mail
    // that is sent for one that was refused. So the connection just ends with the last of their answers.
    const last = [...connection.answers].findLast(({ req }) => req.complete);
    if (!last) refuse(socket, error);
    else if (!connection.ending) {
      connection.ending = true;
      last.shouldKeepAlive = false;
    }
  }

  function refuse(socket: Duplex, error: ApiError): void {
    const answer = errorAnswer(error);
    options.metrics.httpRequests.inc({
      method: "OTHER",
      route: "unmatched",
      status: String(answer.status),
    });
    const body = JSON.stringify(answer.body);
    connectionOf(socket).refused = true;
    socket.end(
      [
        `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ""}`,
        "Content-Type: application/json; charset=utf-8",
        `Content-Length: ${Buffer.byteLength(body)}`,
        "Cache-Control: no-store",
        "Connection: close",
        "",
        body,
      ].join("\r\n"),
    );
    // Node no longer looks after the socket: a client that does not close its side would keep it for ever. One that
    // goes on sending may do so, as in `lingerForRequest`. What it sends is thrown away, so that a request that was
    // refused as too late is not worked on after all.
    const destroy = () => socket.destroy();
    const quiet = setTimeout(destroy, LINGER_MS).unref();
    const late = setTimeout(destroy, REQUEST_TIMEOUT_MS).unref();
    socket
      .removeAllListeners("data")
      .on("data", () => quiet.refresh())
      .once("close", () => clearTimeout(late));
  }
}

function parseError(code: string | undefined): ApiError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new ApiError(
      "headers_too_large",
      `the request's target and headers are too large: at most ${maxHeaderSize / 1_024} KiB in all`,
    );
  if (code === REQUEST_TIMEOUT)
    return new ApiError("request_timeout", "the request did not arrive in time");
  return new ApiError("malformed_request", "the request is not valid HTTP");
}

/**
 * After what has arrived is read, which takes two turns of the event loop at most. In a process that was held up,
 * timers run before that: they would find a connection idle, and close it under a request.
 */
function onceRead(then: () => void): void {
  setImmediate(() => setImmediate(then));
}

function answerWithError(res: ServerResponse, error: ApiError): void {
  const answer = errorAnswer(error);
  res.writeHead(answer.status, {
    ...answer.headers,
    "Content-Type": "application/json; charset=utf-8",
    "Cache-Control": "no-store",
    Connection: "close",
  });
  res.end(JSON.stringify(answer.body));
}
