import type { Instant } from "../domain/instant.ts";

/**
 * The next wake-up of each key: a binary heap with an index, so that moving and removing a key is O(log n). Through it
 * 100,000 jobs share one timer. Keys and times are two arrays: an object for each pair takes 48 bytes more.
 */
export class WakeHeap {
  readonly #keys: string[] = [];
  readonly #times: Instant[] = [];
  readonly #index = new Map<string, number>();

  get size(): number {
    return this.#keys.length;
  }

  /** Adds the key, or moves it. */
  set(key: string, at: Instant): void {
    const index = this.#index.get(key);
    if (index === undefined) {
      const last = this.#keys.push(key) - 1;
      this.#times.push(at);
      this.#index.set(key, last);
      this.#up(last);
      return;
    }
    if (this.#times[index] === at) return;
    this.#times[index] = at;
    this.#up(index);
    this.#down(index);
  }

  delete(key: string): void {
    const index = this.#index.get(key);
    if (index === undefined) return;
    const last = this.#keys.length - 1;
    if (index < last) this.#swap(index, last);
    this.#keys.pop();
    this.#times.pop();
    this.#index.delete(key);
    if (index === last) return;
    this.#up(index);
    this.#down(index);
  }

  /** The earliest wake-up; null when there is none. */
  next(): Instant | null {
    return this.#times[0] ?? null;
  }

  /** Removes and returns the earliest key that is due at `now`. */
  popDue(now: Instant): string | undefined {
    const [key] = this.#keys;
    const at = this.next();
    if (key === undefined || at === null || at > now) return undefined;
    this.delete(key);
    return key;
  }

  clear(): void {
    this.#keys.length = 0;
    this.#times.length = 0;
    this.#index.clear();
  }

  #up(from: number): void {
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#before(index, parent)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  #down(from: number): void {
    let index = from;
    for (;;) {
      let least = index;
      for (const child of [2 * index + 1, 2 * index + 2])
        if (child < this.size && this.#before(child, least)) least = child;
      if (least === index) return;
      this.#swap(index, least);
      index = least;
    }
  }

  #before(a: number, b: number): boolean {
    const [left, right] = [this.#times[a], this.#times[b]];
    return left !== undefined && right !== undefined && left < right;
  }

  #swap(a: number, b: number): void {
    const [left, right] = [this.#keys[a], this.#keys[b]];
    const [leftTime, rightTime] = [this.#times[a], this.#times[b]];
    if (left === undefined || right === undefined) return;
    if (leftTime === undefined || rightTime === undefined) return;
    this.#keys[a] = right;
    this.#keys[b] = left;
    // Without one helper for both arrays: writing to an array of texts and to one of numbers at the same place of the
    // code makes V8 keep the numbers as objects.
    this.#times[a] = rightTime;
    this.#times[b] = leftTime;
    this.#index.set(right, a);
    this.#index.set(left, b);
  }
}
