import {
  createServer,
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

/** Node's code for what is over the times above. */
const REQUEST_TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT";

/** How long answers may take once the server has begun to end: the process has 30 s for all of its parts. */
export const LAST_ANSWERS_MS = 25_000;

/** How long a connection may stay quiet once the server has begun to end, or once it has been refused. */
const LINGER_MS = 500;

/** Without a byte either way, and longer than any answer takes: the client reads its answer no further. */
const STALLED_MS = 300_000;

/** Requests of one connection that have no answer yet: each is small for a client, and some kilobytes for us. */
const MOST_PIPELINED = 100;

/** Those beyond are not worked on. With more of them the connection is cut: no client sends so many at a time. */
const MOST_IGNORED = 1_000;

const TOO_MANY = new ApiError(
  "rate_limited",
  `${MOST_PIPELINED} requests of this connection wait for their answers: send no more before they have come`,
  { retryAfterSeconds: 1 },
);

export interface HttpServer {
  server: Server;
  /**
   * Stops accepting; resolves when the last answer is out. An idle connection stays for as long as a request can
   * have been on its way down it, and ends with the answer to that. Whoever is still sending a request, or waiting,
   * after 25 s is cut off.
   */
  end: (timers: Timers) => Promise<void>;
}

interface Connection {
  /** Answers that are not out yet, in the order of their requests. */
  answers: Set<ServerResponse>;
  /** It ends with one of them: what follows would not be answered. */
  ending: boolean;
  /** It ends with an answer to what was no request. */
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
  /** Requests whose own time begins with their turn: until then nobody reads their bodies. */
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
    const inTime = latest?.complete === false && waited.has(latest);
    if (error.code !== REQUEST_TIMEOUT || !inTime) broken(socket, error.code);
  });
  // Without a listener Node hangs up without a word. With one, the socket is ours alone.
  server.on("connect", (_req, socket: Duplex) => {
    const destroy = () => socket.destroy();
    socket.on("error", destroy).on("timeout", destroy).resume();
    turnDown(socket, new ApiError("method_not_allowed", "CONNECT is not allowed here: no proxy"));
  });
  server.on("checkExpectation", (req, res) => {
    take(req, res, () => {
      answerWithError(
        res,
        new ApiError("expectation_failed", "the Expect header asks for what is not supported"),
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

  /** Has a request worked on in its turn. */
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
      // In its turn: those before it are worked on first, and their answers must arrive.
      connection.ending = true;
      answerWithError(res, TOO_MANY);
      return;
    }
    // A busy caller's next request would come on the same connection, for ever. Once the end has
    // begun, answers close their connections, and the one that was under way then is followed by a
    // pause: the caller's next request may be in the air already.
    if (!server.listening) res.shouldKeepAlive = false;
    res.once("close", () => {
      if (!server.listening) setTimeout(closeIdle, LINGER_MS).unref();
    });
    if (before) workAfter(before, req, res, work);
    else work();
  }

  async function end(timers: Timers): Promise<void> {
    const quiet = timers.after(LINGER_MS, () => {
      closeIdle();
      // Node counts a connection as idle once it has had a request. Browsers open some ahead, and never use them.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    });
    const patience = timers.after(LAST_ANSWERS_MS, () => server.closeAllConnections());
    try {
      await new Promise<void>((resolve, reject) => {
        // An HTTP server's own `close` begins with idle connections, and requests that are in the air are lost.
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
   * An answer that ends its connection may come before all of its request has. Where Node closes then, the client's next
   * bytes are answered with a reset, which takes the answer from it if it reads none before it has sent all. It
   * may send them, in the time of any request (RFC 9112, 9.6).
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

  /** Node counts one as idle whose answer is composed and not read yet; once that is out, it is looked at again. */
  function closeIdle(): void {
    for (const socket of sockets)
      for (const answer of connectionOf(socket).answers) if (answer.writableEnded) return;
    server.closeIdleConnections();
  }

  /**
   * Works on a request when the answer before it is out. A hundred large ones would be in memory otherwise, for a client
   * that reads none.
   */
  function workAfter(
    before: ServerResponse,
    req: IncomingMessage,
    res: ServerResponse,
    work: () => void,
  ): void {
    waited.add(req);
    before.once("close", () => {
      // It has none where the connection ends with the answer before it, or has ended.
      if (!res.socket) return;
      if (!req.complete) timeFromNow(req);
      work();
    });
  }

  /** Node's time for a request ran while nobody read its body, and Node speaks of it once only. */
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

  /** What never becomes a request. Nothing that follows it on its connection does. */
  function turnDown(socket: Duplex, error: ApiError): void {
    const connection = connectionOf(socket);
    const [first] = connection.answers;
    // Gone, or in the middle of an answer: bytes of ours would end up inside it. No other is begun before that is out.
    if (!socket.writable || first?.headersSent === true) {
      socket.destroy();
      return;
    }
    // It came behind requests that are whole and will be answered: the caller would take our answer for one of theirs, a
    // mail that is sent for one that was refused.
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
    // Node looks after it no more: a client that does not close its side would keep it for ever. One that sends on may do
    // so, as above: it may read its answer after that. What it sends is thrown away, and no request of it that was too
    // late is worked on after all.
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
    return new ApiError("headers_too_large", "the request's headers are too large");
  if (code === REQUEST_TIMEOUT)
    return new ApiError("request_timeout", "the request did not arrive in time");
  return new ApiError("malformed_request", "the request is not valid HTTP");
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
