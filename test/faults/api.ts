import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/domain/ports/clock.ts";

/** The answer to a request that was repeated until it was answered with something else than "try again". */
export interface Answered {
  sentAt: number;
  answeredAt: number;
  status: number;
  body: unknown;
  /** There was an earlier try without such an answer, which may have been carried out. */
  repeated: boolean;
}

export interface Api {
  /** Undefined if there was no such answer before it gave up: nobody knows whether it was carried out. */
  call(request: {
    method: string;
    path: string;
    body?: unknown;
    idempotencyKey?: string;
  }): Promise<Answered | undefined>;
}

const TRY_MS = 15_000;
const PAUSE_MS = 250;

/** A caller as the documentation asks for: repeats what got no answer, a 5xx, a 429, or a 409 for its own key. */
export function createApi(options: {
  base: string;
  key: string;
  clock: Clock;
  /** It gives up when this aborts. */
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
          // No answer: the gateway, or the database that it waits for, is down or stopped.
        }
        repeated = true;
        await delay(PAUSE_MS);
      }
      return undefined;
    },
  };
}
