import type { Instant } from "../domain/instant.ts";

/**
 * An account or a destination: what it holds of this worker, and why claims pass it over. It is crowded when it lacks
 * slots, packed when another claim of its runs would not fit. A reason is remembered until it is gone, so that this is
 * told once. How many slots there are for it, and how much it may hold, others say.
 */
export class Holder {
  inFlight = 0;
  waiting = 0;
  /** Of its runs' payloads and mails. */
  characters = 0;
  readonly #enough: number;
  /** When a claim last included it. */
  #claimedAt: Instant = -Infinity;
  #crowded = false;
  /** How many of its runs were due and waited for a slot when it was last judged, as far as they still do. */
  #queued = 0;
  /** Set while it is packed: it is so no more when it holds no more than this, the half. */
  #packed: { places: number; characters: number } | undefined;

  /** `enough`: so many free slots are never few. */
  constructor(enough: number) {
    this.#enough = enough;
  }

  /** A claim was made at `now` that did not exclude it. */
  included(now: Instant): void {
    this.#claimedAt = now;
  }

  /**
   * Judges whether claims are to exclude it because it has no slots, or so few that a claim with it would be small. Few
   * slots count only when a claim after `since` included it. `queued`: so many due runs wait for its slots already.
   */
  crowded(slots: number, since: Instant, queued = 0): boolean {
    this.#queued = queued;
    this.#crowded = queued > 0 || slots < 1 || (this.#few(slots) && this.#claimedAt > since);
    return this.#crowded;
  }

  /** Judges whether claims are to exclude it because it holds more than so many places for runs, or characters. */
  packed(places: number, characters: number): boolean {
    const packed = this.#places > places || this.characters > characters;
    this.#packed = packed
      ? { places: this.#places / 2, characters: this.characters / 2 }
      : undefined;
    return packed;
  }

  /** One of the runs that waited for a slot does not any more. */
  unqueued(): void {
    if (this.#queued > 0) this.#queued -= 1;
  }

  /** It holds less than before. True when a reason to exclude it is gone; that is forgotten. */
  recovers(slots: number): boolean {
    let recovers = false;
    // Slots that are free for runs which wait for them are no news: the next claim would pass it over again.
    if (this.#crowded && this.#queued === 0 && !this.#few(slots)) {
      this.#crowded = false;
      recovers = true;
    }
    const half = this.#packed;
    if (half && this.#places <= half.places && this.characters <= half.characters) {
      this.#packed = undefined;
      recovers = true;
    }
    return recovers;
  }

  get #places(): number {
    return this.inFlight + this.waiting;
  }

  /** Less than half of the slots that it can have now, and less than enough. */
  #few(slots: number): boolean {
    return slots < Math.max(1, Math.min(this.#enough, (this.inFlight + slots) / 2));
  }
}
