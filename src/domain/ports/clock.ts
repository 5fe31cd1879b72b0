import type { Instant } from "../instant.ts";

/**
 * PostgreSQL's clock as this process knows it: a measured offset on monotonic time.
 * Nothing is created or started while it is not known.
 */
export interface Clock {
  /** Throws `ClockUnknown` before the first measurement. */
  now(): Instant;
  /** False before the first measurement, and while the last one is doubted. */
  readonly known: boolean;
}

export class ClockUnknown extends Error {
  override name = "ClockUnknown";
}

/** Monotonic milliseconds, for durations and leases; never compared between processes. */
export type Monotonic = () => number;

/** Uniform in [0, 1). */
export type Random = () => number;

/** One-shot timers; `ms` ≤ 1 hour. Passed in so tests own time. */
export interface Timers {
  after(ms: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}
