import type { Instant } from "../domain/instant.ts";

interface Item {
  key: string;
  at: Instant;
}

/**
 * The next wake-up of each key: a binary heap with an index, so that moving and removing a key is O(log n). Through it
 * 100,000 jobs share one timer.
 */
export class WakeHeap {
  readonly #items: Item[] = [];
  readonly #index = new Map<string, number>();

  get size(): number {
    return this.#items.length;
  }

  /** Adds the key, or moves it. */
  set(key: string, at: Instant): void {
    const index = this.#index.get(key);
    if (index === undefined) {
      this.#items.push({ key, at });
      this.#index.set(key, this.#items.length - 1);
      this.#up(this.#items.length - 1);
      return;
    }
    const item = this.#items[index];
    if (item === undefined || item.at === at) return;
    item.at = at;
    this.#up(index);
    this.#down(index);
  }

  delete(key: string): void {
    const index = this.#index.get(key);
    if (index === undefined) return;
    this.#index.delete(key);
    const last = this.#items.pop();
    if (last === undefined || index === this.#items.length) return;
    this.#items[index] = last;
    this.#index.set(last.key, index);
    this.#up(index);
    this.#down(index);
  }

  /** The earliest wake-up; null when there is none. */
  next(): Instant | null {
    return this.#items[0]?.at ?? null;
  }

  /** Removes and returns the earliest key that is due at `now`. */
  popDue(now: Instant): string | undefined {
    const first = this.#items[0];
    if (first === undefined || first.at > now) return undefined;
    this.delete(first.key);
    return first.key;
  }

  clear(): void {
    this.#items.length = 0;
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
        if (child < this.#items.length && this.#before(child, least)) least = child;
      if (least === index) return;
      this.#swap(index, least);
      index = least;
    }
  }

  #before(a: number, b: number): boolean {
    const [left, right] = [this.#items[a], this.#items[b]];
    return left !== undefined && right !== undefined && left.at < right.at;
  }

  #swap(a: number, b: number): void {
    const [left, right] = [this.#items[a], this.#items[b]];
    if (left === undefined || right === undefined) return;
    this.#items[a] = right;
    this.#items[b] = left;
    this.#index.set(right.key, a);
    this.#index.set(left.key, b);
  }
}
