/** How many deletions a follower remembers in case it takes over. */
const MAX_REMEMBERED = 50_000;

/** Uids of deleted jobs whose runs are still to be cancelled. */
export class Tombstones {
  readonly #uids = new Set<string>();

  has(uid: string): boolean {
    return this.#uids.has(uid);
  }

  /** A follower, which cancels nothing, forgets the oldest beyond its limit. */
  add(uid: string, leading: boolean): void {
    this.#uids.add(uid);
    for (const oldest of this.#uids) {
      if (leading || this.#uids.size <= MAX_REMEMBERED) break;
      this.#uids.delete(oldest);
    }
  }

  delete(uid: string): void {
    this.#uids.delete(uid);
  }

  /** Up to `limit` of those that are not in `except`, the oldest first. */
  first(limit: number, except: ReadonlySet<string>): string[] {
    const others = this.#uids.values().filter((uid) => !except.has(uid));
    return others.take(limit).toArray();
  }
}
