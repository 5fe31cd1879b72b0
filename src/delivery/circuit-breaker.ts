/**
 * The only file that knows opossum. A breaker costs kilobytes and, by default, two timers: destinations
 * get one when they first fail and lose it when it has been closed and quiet for a window; all of them
 * share one timer.
 */
import { EventEmitter } from "node:events";
import CircuitBreaker from "opossum";
import type { Clock, Monotonic, Timers } from "../domain/ports/clock.ts";
import type { Instant } from "../domain/instant.ts";
import type { CircuitState } from "../domain/ports/circuits.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** Leave to make one attempt. `settle` must be called exactly once, however the attempt ended. */
export interface Permit {
  /** `neutral`: the attempt says nothing about the destination (aborted by us, never sent). */
  settle(result: "success" | "failure" | "neutral"): void;
}

export interface CircuitBreakers {
  /** Synchronous. `open`: nobody may call before `until`; in half-open all but one are told so. */
  admit(
    destination: string,
  ): { kind: "admitted"; permit: Permit } | { kind: "open"; until: Instant };
  /** For tests and metrics. */
  readonly size: number;
  close(): void;
}

/** Parts of the window; each costs memory in each breaker. */
const BUCKETS = 3;

interface Entry {
  destination: string;
  breaker: CircuitBreaker<[Promise<void>], void>;
  /** Moves the breaker's window on by one bucket. */
  rotation: EventEmitter;
  state: CircuitState;
  openedAt: number;
  lastFailureAt: number;
}

/**
 * One breaker per destination key. It opens when, within `windowMs`, at least `minimumCalls` were made
 * and more than half failed; after `resetMs` one call is let through, whose outcome closes or reopens
 * it. That probe cannot hang: callers give every attempt a deadline and always settle.
 */
export function createCircuitBreakers(options: {
  clock: Clock;
  monotonic: Monotonic;
  timers: Timers;
  metrics: Metrics;
  /** Called for each change of state; must not throw. */
  onTransition: (transition: { destination: string; state: CircuitState }) => void;
  minimumCalls?: number;
  windowMs?: number;
  resetMs?: number;
  /** Breakers kept at most; the longest unused closed one gives way, and open ones never do. */
  max?: number;
}): CircuitBreakers {
  const { clock, monotonic, timers, metrics, onTransition } = options;
  const { minimumCalls = 5, windowMs = 30_000, resetMs = 30_000, max = 8_000 } = options;
  /** In the order of last use. */
  const entries = new Map<string, Entry>();
  let tick: { cancel(): void } | undefined;
  let closed = false;

  function admit(destination: string): ReturnType<CircuitBreakers["admit"]> {
    const entry = entries.get(destination);
    if (entry === undefined) return { kind: "admitted", permit: firstPermit(destination) };
    const { breaker } = entry;
    if (breaker.opened || (breaker.halfOpen && !breaker.pendingClose)) {
      metrics.circuitRejections.inc();
      const remaining = breaker.opened ? entry.openedAt + resetMs - monotonic() : PROBE_PATIENCE;
      return { kind: "open", until: clock.now() + Math.max(0, Math.ceil(remaining)) };
    }
    entries.delete(destination);
    entries.set(destination, entry);
    return { kind: "admitted", permit: permit(entry) };
  }

  /** Most destinations never fail: they cost nothing. */
  function firstPermit(destination: string): Permit {
    return {
      settle: (result) => {
        if (result !== "failure" || closed) return;
        const existing = entries.get(destination);
        if (existing === undefined) create(destination);
        // A straggler from before the circuit opened must not pass for the probe.
        else if (existing.breaker.closed) permit(existing).settle("failure");
      },
    };
  }

  /** The call is announced to opossum now, so that it counts the probe, and reported when it ends. */
  function permit(entry: Entry): Permit {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    // opossum reports rejections by its events; the promise itself is nobody's if it was shut down.
    Promise.allSettled([promise, entry.breaker.fire(promise)]).catch(() => undefined);
    return {
      settle: (result) => {
        if (result === "failure") entry.lastFailureAt = monotonic();
        // Nothing learned: a probe must be repeated, and otherwise it weighs as no failure.
        const failed = result === "failure" || (result === "neutral" && !entry.breaker.closed);
        if (failed) reject(FAILED);
        else resolve(undefined);
      },
    };
  }

  function create(destination: string): void {
    if (entries.size >= max && !evict()) return;
    const rotation = new EventEmitter();
    const breaker = new CircuitBreaker<[Promise<void>], void>((call) => call, {
      // Each attempt has its own deadline; opossum's would leave the call running in the background.
      timeout: false,
      errorThresholdPercentage: 50,
      volumeThreshold: minimumCalls,
      resetTimeout: resetMs,
      rollingCountTimeout: windowMs,
      rollingCountBuckets: BUCKETS,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      // One for each: opossum counts a controller's listeners whenever it adds one.
      rotateBucketController: rotation,
    });
    // It listens to itself to count what we never use: an eighth of what a breaker weighs.
    for (const event of UNUSED_EVENTS) breaker.removeAllListeners(event);
    const entry: Entry = {
      destination,
      breaker,
      rotation,
      state: "closed",
      openedAt: 0,
      lastFailureAt: monotonic(),
    };
    const changed = (state: CircuitState): void => {
      metrics.circuitTransitions.inc({ state });
      count(entry.state, -1);
      count(state, 1);
      entry.state = state;
      onTransition({ destination, state });
    };
    breaker.on("open", () => {
      entry.openedAt = monotonic();
      changed("open");
    });
    breaker.on("halfOpen", () => {
      changed("half_open");
    });
    breaker.on("close", () => {
      changed("closed");
    });
    entries.set(destination, entry);
    // The failure that it is made for.
    permit(entry).settle("failure");
    tick ??= timers.after(windowMs / BUCKETS, rotate);
  }

  /** One timer for all windows; it stops when there is no breaker left. */
  function rotate(): void {
    const quietSince = monotonic() - windowMs;
    for (const entry of entries.values()) {
      if (entry.breaker.closed && entry.lastFailureAt < quietSince) drop(entry);
      else entry.rotation.emit("rotate");
    }
    tick = entries.size === 0 ? undefined : timers.after(windowMs / BUCKETS, rotate);
  }

  function evict(): boolean {
    for (const entry of entries.values()) {
      if (!entry.breaker.closed) continue;
      drop(entry);
      return true;
    }
    return false;
  }

  function drop(entry: Entry): void {
    count(entry.state, -1);
    entries.delete(entry.destination);
    entry.breaker.shutdown();
  }

  function count(state: CircuitState, change: 1 | -1): void {
    if (state !== "closed") metrics.circuits.inc({ state }, change);
  }

  return {
    admit,
    get size() {
      return entries.size;
    },
    close: () => {
      closed = true;
      tick?.cancel();
      tick = undefined;
      for (const entry of entries.values()) drop(entry);
    },
  };
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
/** Milliseconds to wait for the outcome of somebody else's probe. */
const PROBE_PATIENCE = 2_000;
/** One object: a stack for every failed attempt would be for nobody. */
const FAILED = new Error("the attempt failed");
