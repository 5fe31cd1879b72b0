import { EventEmitter } from "node:events";
import CircuitBreaker from "opossum";
import type { CircuitState } from "../domain/ports/circuits.ts";

/** What an attempt says about its destination; `neutral`: nothing, as it was aborted by us, or never sent. */
export type Verdict = "success" | "failure" | "neutral";

/** How a call ended: one of them is called, once. */
export type Call = Record<Verdict, () => void>;

/** Parts of the window; each costs memory in each breaker. */
export const BUCKETS = 3;

/** Calls within the window, before which nothing is concluded from their failures. */
export const MINIMUM_CALLS = 5;

/**
 * One breaker of opossum's, closed at first; the only file that knows it. It costs kilobytes, and has no timer while it is
 * closed: `rotate` moves its window on.
 */
export class Breaker {
  readonly #opossum: CircuitBreaker<[Promise<void>], void>;
  /** One for each: opossum counts a controller's listeners whenever it adds one. */
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
    // It listens to itself to count what we never use: an eighth of what a breaker weighs.
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

  /** Half-open: nobody has come yet to try. */
  get awaitsProbe(): boolean {
    return this.#opossum.pendingClose;
  }

  /** `probing`: it is half-open. */
  begin(probing: boolean): Call {
    const opossum = this.#opossum;
    if (probing && !this.awaitsProbe)
      // opossum lets one call through half-open. What a further one learns is told to it; the first is still under way.
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
    // opossum reports rejections by its events; the promise itself is nobody's if it was shut down.
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
      // Nothing learned: a probe must be repeated, and otherwise it weighs as no failure.
      neutral: probing ? fail : succeed,
    };
  }

  /** By one bucket. */
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
/** One object: a stack for every failed attempt would be for nobody. */
const FAILED = new Error("the attempt failed");
