import type { Cursor } from "../domain/cursor.ts";

interface Found {
  /** Cursors without a job. */
  orphans: readonly string[];
  /** Cursors that know of a deletion, or of a later generation, of which the store says nothing. */
  contradicting: readonly Cursor[];
}

const NONE: Found & { certainAfterList: number } = {
  orphans: [],
  contradicting: [],
  certainAfterList: 0,
};

/**
 * What only a list that begins later can prove. A job may have been made, and given a cursor by another
 * leader, after a list had passed its place; and a cursor may be ahead of the store's news.
 */
export class Suspects {
  #lists = 0;
  #found = NONE;
  readonly #relist: () => void;

  constructor(options: { relist: () => void }) {
    this.#relist = options.relist;
  }

  /** A list begins. */
  listing(): void {
    this.#lists += 1;
  }

  /** In place of what was found before; the first time it asks for the list that proves it. */
  add(found: Found): void {
    if (found.orphans.length + found.contradicting.length === 0) return;
    const first = this.#found === NONE;
    this.#found = { ...found, certainAfterList: this.#lists + 1 };
    if (first) this.#relist();
  }

  /**
   * A list has ended: what it is new enough to judge. Of orphans only a `whole` one, without a gap, can
   * tell; until there is one they are kept, since found anew they would ask for one again and again.
   */
  listed(whole: boolean): Found {
    const { orphans, contradicting, certainAfterList } = this.#found;
    if (this.#lists < certainAfterList) return NONE;
    this.#found = whole || orphans.length === 0 ? NONE : { ...this.#found, contradicting: [] };
    return { orphans: whole ? orphans : [], contradicting };
  }

  clear(): void {
    this.#found = NONE;
  }
}
