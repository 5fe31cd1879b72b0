import { EventEmitter } from "node:events";
import CircuitBreaker from "opossum";
import type { CircuitState } from "../domain/ports/circuits.ts";

/** What an attempt says about its destination; `neutral`: nothing, because we aborted it or never sent it. */
export type Verdict = "success" | "failure" | "neutral";

/** How a call ended: exactly one of these is called, once. */
export type Call = Record<Verdict, () => void>;

/** Parts of the window; each of them costs memory in every breaker. */
export const BUCKETS = 3;

/** Calls that a window must have before their failures can open the circuit. */
const MINIMUM_CALLS = 5;

/**
 * An opossum breaker, closed at first; only this file knows opossum. It costs kilobytes, and has no timer while it is
 * closed: `rotate` moves its window on.
 */
export class Breaker {
  readonly #opossum: CircuitBreaker<[Promise<void>], void>;
  /** One emitter for each breaker: opossum counts the listeners of a shared one whenever it adds one. */
  readonly #rotation = new EventEmitter();

  constructor(options: {
    windowMs: number;
    resetMs: number;
    onState: (state: CircuitState) => void;
  }) {
    const { windowMs, resetMs, onState } = options;
    const opossum = new CircuitBreaker<[Promise<void>], void>((call) => call, {
      // Each attempt has its own deadline; opossum's would leave the call running in the background.
      timeout: false,
      errorThresholdPercentage: 50,
      volumeThreshold: MINIMUM_CALLS,
      resetTimeout: resetMs,
      rollingCountTimeout: windowMs,
      rollingCountBuckets: BUCKETS,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      rotateBucketController: this.#rotation,
    });
    // opossum listens to itself to count events that we never use: an eighth of a breaker's memory.
    for (const event of UNUSED_EVENTS) opossum.removeAllListeners(event);
    opossum.on("open", () => {
      onState("open");
    });
    opossum.on("halfOpen", () => {
      onState("half_open");
    });
    opossum.on("close", () => {
      onState("closed");
    });
    this.#opossum = opossum;
  }

  /** `probing`: it is half-open. */
  begin(probing: boolean): Call {
    const opossum = this.#opossum;
    if (probing && !opossum.pendingClose)
      // opossum knows of one probe only, which is still under way, or learned nothing. What this further one learns is
      // told to it directly.
      return {
        success: () => {
          opossum.close();
        },
        failure: () => {
          opossum.open();
        },
        neutral: () => undefined,
      };
    // The call is announced now, so that opossum counts the probe, and reported when it ends.
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // opossum reports rejections by its events. After a shutdown nobody handles the promises themselves.
    void Promise.allSettled([promise, opossum.fire(promise)]);
    const succeed = (): void => {
      resolve();
    };
    const fail = (): void => {
      reject(FAILED);
    };
    return {
      success: succeed,
      failure: fail,
      // Nothing learned: for opossum a probe stays under way, any other call must not count as a failure.
      neutral: probing ? () => undefined : succeed,
    };
  }

  /** Moves the window on by one bucket. */
  rotate(): void {
    this.#rotation.emit("rotate");
  }

  shutdown(): void {
    this.#opossum.shutdown();
  }
}

const UNUSED_EVENTS = [
  "fallback",
  "timeout",
  "reject",
  "cacheHit",
  "cacheMiss",
  "coalesceCacheHit",
  "coalesceCacheMiss",
  "semaphoreLocked",
];
/** Shared: nobody reads the stack of a failed attempt. */
const FAILED = new Error("the attempt failed");
