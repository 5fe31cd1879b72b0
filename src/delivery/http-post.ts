import type { AbortListener, LightSignal } from "../waiting/light-abort.ts";
import { abortReason } from "../waiting/until-aborted.ts";
import { AnswerParser } from "./answer-parser.ts";
import type { ResponseHandler, ReceiverConnection } from "./receiver-connection.ts";
import type { ReceiverUrl } from "./receiver-url.ts";
import { requestText } from "./request-text.ts";

/** A receiver's answer, as far as it matters: its body is read and thrown away. */
export interface Answer {
  status: number;
  retryAfter: string | null;
}

export interface PostRequest {
  /** Gives a connection for the call, which releases it at its end. */
  take: () => ReceiverConnection | Promise<ReceiverConnection>;
  url: ReceiverUrl;
  /** Whole lines (`headerLine`), none of which frames the request. */
  headers: string;
  body: string;
  signal: LightSignal;
  /**
   * Milliseconds for the whole call, connecting included: a receiver that drips its answer defeats every other
   * limit.
   */
  timeoutMs: number;
  maySend: () => boolean;
}

/** Milliseconds that a receiver may take to finish its body after the status has come. */
const DRAIN_TIMEOUT = 5_000;
/** Bytes of a body that are read so that the connection can be used again; then it is closed. */
const DRAIN_BYTES = 64 * 1024;

/** The caller gave up before a byte left; nothing was sent. */
export class NotSent extends Error {
  override name = "NotSent";
}

export class TimedOut extends Error {
  override name = "TimedOut";
}

/** There is no answer, or none that can be read. */
class BadAnswer extends Error {
  override name = "BadAnswer";
  readonly code: "CONNECTION_CLOSED" | "ANSWER_MALFORMED" | "ANSWER_TOO_LARGE";
  constructor(code: BadAnswer["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * One POST. Resolves with the final status once the body has been drained, or is too long or too slow for that;
 * rejects with the transport's error. The signal ends it at any moment, also while it waits for a connection.
 * `maySend` is asked in the same turn in which the bytes are written: however long this process stalled since the
 * run was started, a run that another worker has taken over is not sent.
 */
export function post(request: PostRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new Call(request, resolve, reject).begin();
  });
}

/** One object that listens to everything: the connection, the signal and the timers. */
class Call implements ResponseHandler, AbortListener {
  readonly #request: PostRequest;
  readonly #resolve: (answer: Answer) => void;
  readonly #reject: (error: unknown) => void;
  readonly #answer = new AnswerParser();
  #connection: ReceiverConnection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #drainTimer: NodeJS.Timeout | undefined;
  #settled = false;

  constructor(
    request: PostRequest,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
  ) {
    this.#request = request;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  begin(): void {
    const { signal, timeoutMs, take } = this.#request;
    if (signal.aborted) {
      this.handleEvent();
      return;
    }
    this.#timer = setTimeout(timedOut, timeoutMs, this);
    signal.addEventListener("abort", this, { once: true });
    try {
      const bytes = requestText(this.#request);
      const taken = take();
      if (taken instanceof Promise) void this.#sendLater(taken, bytes);
      else this.#send(taken, bytes);
    } catch (error) {
      this.failed(error);
    }
  }

  /** The signal aborts. */
  handleEvent(): void {
    if (this.#connection === undefined) this.failed(new NotSent("given up before it was sent"));
    else this.failed(abortReason(this.#request.signal));
  }

  timedOut(): void {
    this.failed(new TimedOut(`no answer within ${this.#request.timeoutMs} ms`));
  }

  async #sendLater(taken: Promise<ReceiverConnection>, bytes: string | Buffer): Promise<void> {
    try {
      this.#send(await taken, bytes);
    } catch (error) {
      this.failed(error);
    }
  }

  #send(connection: ReceiverConnection, bytes: string | Buffer): void {
    if (this.#settled) connection.release(false);
    else if (this.#request.maySend()) {
      this.#connection = connection;
      connection.send(bytes, this);
    } else {
      connection.release(false);
      this.failed(new NotSent("the claim was lost before sending"));
    }
  }

  received(piece: Buffer): void {
    const answer = this.#answer;
    switch (answer.feed(piece)) {
      case "ended":
        this.#settle(answer.reusable);
        break;
      case "more":
        if (answer.received > DRAIN_BYTES) this.#settle(false);
        // Nearly always the body's end has come in the same piece.
        else if (answer.status !== 0 && this.#drainTimer === undefined)
          this.#drainTimer = setTimeout(drained, DRAIN_TIMEOUT, this);
        break;
      case "malformed":
        this.failed(new BadAnswer("ANSWER_MALFORMED", "the answer is not HTTP/1.1"));
        break;
      case "too large":
        this.failed(new BadAnswer("ANSWER_TOO_LARGE", "the answer's headers are too large"));
    }
  }

  closed(): void {
    this.failed(new BadAnswer("CONNECTION_CLOSED", "the receiver closed the connection"));
  }

  /** The end of the call. A status that has come counts, whatever became of the rest of its answer. */
  failed(error: unknown): void {
    this.#settle(false, error);
  }

  drained(): void {
    this.#settle(false);
  }

  #settle(reusable: boolean, error?: unknown): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#drainTimer);
    this.#request.signal.removeEventListener("abort", this);
    const { status, retryAfter, keepAlive } = this.#answer;
    this.#connection?.release(reusable, keepAlive);
    if (status === 0) this.#reject(error);
    else this.#resolve({ status, retryAfter });
  }
}

function timedOut(call: Call): void {
  call.timedOut();
}

function drained(call: Call): void {
  call.drained();
}
