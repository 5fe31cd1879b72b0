import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/domain/ports/clock.ts";

/** What came of a request that was repeated until somebody gave an answer that counts. */
export interface Answered {
  sentAt: number;
  answeredAt: number;
  status: number;
  body: unknown;
  /** Whether an earlier try got no answer: it may have been carried out. */
  repeated: boolean;
}

export interface Api {
  /** Undefined: nobody knows, not even at the end. */
  call(request: {
    method: string;
    path: string;
    body?: unknown;
    idempotencyKey?: string;
  }): Promise<Answered | undefined>;
}

const TRY_MS = 15_000;
const PAUSE_MS = 250;

/** A caller as the documentation asks for: repeats what got no answer, a 5xx, or a 409 of its own key. */
export function createApi(options: {
  base: string;
  key: string;
  clock: Clock;
  /** Gives up then. */
  signal: AbortSignal;
}): Api {
  const { base, key, clock, signal } = options;
  return {
    call: async ({ method, path, body, idempotencyKey }) => {
      const sentAt = clock.now();
      let repeated = false;
      while (!signal.aborted) {
        try {
          const response = await fetch(`${base}${path}`, {
            method,
            headers: {
              "x-api-key": key,
              ...(body === undefined ? {} : { "content-type": "application/json" }),
              ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
            },
            ...(body === undefined ? {} : { body: JSON.stringify(body) }),
            signal: AbortSignal.timeout(TRY_MS),
          });
          const text = await response.text();
          if (response.status < 500 && response.status !== 409 && response.status !== 429)
            return {
              sentAt,
              answeredAt: clock.now(),
              status: response.status,
              body: JSON.parse(text) as unknown,
              repeated,
            };
        } catch {
          // No answer: the gateway is gone, stopped, or waits for a database that is.
        }
        repeated = true;
        await delay(PAUSE_MS);
      }
      return undefined;
    },
  };
}
