import { MINUTE, SECOND, type Instant } from "../domain/instant.ts";
import type { Random } from "../domain/ports/clock.ts";
import { backoffMs } from "../waiting/backoff.ts";
import { WakeHeap } from "./wake-heap.ts";

const RETRY = { leastMs: SECOND, mostMs: MINUTE };

/**
 * Keys to reconcile: each at most once however often it is added, first come first served, those that are due before
 * the others. A key that failed comes back after a growing, jittered delay, or earlier when it is added again. A key
 * that is put aside comes back only with `takeBack`, even if it is added.
 */
export class WorkQueue {
  readonly #due = new Set<string>();
  readonly #ready = new Set<string>();
  readonly #delayed = new WakeHeap();
  readonly #aside = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #random: Random;

  constructor(options: { random: Random }) {
    this.#random = options.random;
  }

  /** Keys that are due. */
  get due(): number {
    return this.#due.size;
  }

  /** All keys: ready, waiting for their next try, or put aside. */
  get depth(): number {
    return this.#due.size + this.#ready.size + this.#delayed.size + this.#aside.size;
  }

  /** The keys that are put aside. */
  get aside(): ReadonlySet<string> {
    return this.#aside;
  }

  putAside(keys: Iterable<string>): void {
    for (const key of keys) {
      this.#remove(key);
      this.#aside.add(key);
    }
  }

  takeBack(key: string): void {
    if (this.#aside.delete(key)) this.add(key);
  }

  add(key: string): void {
    if (this.#aside.has(key) || this.#due.has(key)) return;
    this.#delayed.delete(key);
    this.#ready.add(key);
  }

  /** For a key whose time has come: what happens to thousands of others meanwhile must not make it late. */
  addDue(key: string): void {
    if (this.#aside.has(key)) return;
    this.#remove(key);
    this.#due.add(key);
  }

  /** Tries the key again later; the n-th time in a row after up to 2^(n-1) seconds, at most a minute. */
  retry(key: string, now: Instant): void {
    this.#remove(key);
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.#delayed.set(key, now + backoffMs(failures, this.#random, RETRY));
  }

  succeeded(key: string): void {
    this.#failures.delete(key);
  }

  /** Takes up to `limit` keys. Half of the places are for those that are due; each kind gets what the other leaves. */
  take(limit: number): string[] {
    const others = Math.min(this.#ready.size, Math.floor(limit / 2));
    const due = taken(this.#due, limit - others);
    return due.concat(taken(this.#ready, limit - due.length));
  }

  /** Moves the keys whose delay is over to the ready ones. */
  promote(now: Instant): void {
    for (let key = this.#delayed.popDue(now); key !== undefined; key = this.#delayed.popDue(now))
      this.#ready.add(key);
  }

  /** When the next delayed key is ready; null when none waits. */
  nextRetry(): Instant | null {
    return this.#delayed.next();
  }

  forget(key: string): void {
    this.#remove(key);
    this.#aside.delete(key);
    this.#failures.delete(key);
  }

  clear(): void {
    this.#due.clear();
    this.#ready.clear();
    this.#delayed.clear();
    this.#aside.clear();
    this.#failures.clear();
  }

  #remove(key: string): void {
    this.#due.delete(key);
    this.#ready.delete(key);
    this.#delayed.delete(key);
  }
}

/** Takes up to `limit` of the keys, the oldest first. */
function taken(keys: Set<string>, limit: number): string[] {
  const first = keys.values().take(limit).toArray();
  for (const key of first) keys.delete(key);
  return first;
}
