import { errors, type Dispatcher } from "undici";
import { abortReason } from "../domain/until-aborted.ts";
import type { Connection } from "./receiver-connections.ts";

/** A receiver's answer, as far as it matters: its body is read and thrown away. */
export interface Answer {
  status: number;
  retryAfter: string | null;
}

/** Milliseconds that a receiver may take to finish its body after the status has come. */
const DRAIN_TIMEOUT = 5_000;
/** Bytes of a body that are read so that the connection can be used again; then it is closed. */
const DRAIN_BYTES = 64 * 1024;
/** Informational answers (RFC 9110, 15.2) before the final one. Nobody has a use for more, and each costs us work. */
const MOST_INFORMATIONAL = 100;

/** The caller gave up before a byte left; nothing was sent. */
export class NotSent extends Error {
  override name = "NotSent";
}

export class TimedOut extends Error {
  override name = "TimedOut";
}

/**
 * One POST. Resolves with the final status once the body is drained, or cannot be in time; rejects with
 * the transport's error. The signal ends it wherever it is, also while it waits for a connection.
 * `maySend` is asked in the same turn in which the bytes are written: whatever stalled this process
 * since the run was started, a claim that has been taken over is not sent.
 */
export function post(request: {
  /** Released when the call is over. */
  connection: Connection;
  url: URL;
  headers: Readonly<Record<string, string>>;
  body: string;
  signal: AbortSignal;
  /** Milliseconds for all of it, connecting included: a drip defeats every other limit. */
  timeoutMs: number;
  maySend: () => boolean;
}): Promise<Answer> {
  const { connection, url, headers, body, signal, timeoutMs, maySend } = request;
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let answer: Answer | undefined;
    let drainTimer: NodeJS.Timeout | undefined;
    let received = 0;
    let informational = 0;
    let ended = false;
    let settled = false;

    const settle = (error?: Error): void => {
      if (settled) return;
      settled = true;
      clearTimeout(drainTimer);
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      connection.release(ended);
      if (answer) resolve(answer);
      else reject(error ?? new Error("no answer"));
    };
    const giveUp = (error: Error): void => {
      settle(error);
      controller?.abort(error);
    };
    const abort = (): void => {
      if (controller === undefined) giveUp(new NotSent("given up before it was sent"));
      else giveUp(abortReason(signal));
    };
    const timer = setTimeout(() => {
      giveUp(new TimedOut(`no answer within ${timeoutMs} ms`));
    }, timeoutMs);
    if (signal.aborted) {
      abort();
      return;
    }
    signal.addEventListener("abort", abort, { once: true });

    connection.client.dispatch(
      {
        path: `${url.pathname}${url.search}`,
        method: "POST",
        headers: { ...headers },
        body,
        // `timeoutMs` bounds all of it.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart: (started) => {
          controller = started;
          if (settled) started.abort(new NotSent("given up while waiting for a connection"));
          else if (!maySend()) started.abort(new NotSent("the claim was lost before sending"));
        },
        onResponseStart: (_controller, status, responseHeaders) => {
          if (status < 200) {
            informational += 1;
            if (informational > MOST_INFORMATIONAL) giveUp(new errors.HeadersOverflowError());
            return;
          }
          const retryAfter = responseHeaders["retry-after"];
          answer = { status, retryAfter: typeof retryAfter === "string" ? retryAfter : null };
          // Nearly always the body's end has come in the same packet.
          queueMicrotask(() => {
            if (!settled) drainTimer = setTimeout(finish, DRAIN_TIMEOUT);
          });
        },
        onResponseData: (_controller, chunk) => {
          received += chunk.length;
          if (received > DRAIN_BYTES) finish();
        },
        onResponseEnd: () => {
          ended = true;
          settle();
        },
        onResponseError: (_controller, error) => {
          settle(error);
        },
      },
    );

    function finish(): void {
      giveUp(new Error("the rest of the answer is of no interest"));
    }
  });
}
