import type { Cursor } from "../domain/cursor.ts";
import type { Timers } from "../domain/ports/clock.ts";

interface Found {
  /** Cursors without a job. */
  orphans: readonly string[];
  /** Cursors that know of a deletion, or of a later generation, of which the store says nothing. */
  contradicting: readonly Cursor[];
}

interface Suspect {
  /** The uid of an orphan, or the cursor that contradicts. */
  of: string | Cursor;
  /** The first list that is new enough to judge it. */
  judgedBy: number;
}

/** Time for news that are on their way: where two processes schedule, one always knows of a job a moment later. */
const GRACE_MS = 1_000;

/**
 * Cursors that do not fit what the store has said, until a list that began later proves them right or wrong.
 * Before that they may be right: a job may have been made, and given a cursor by another leader, after the list had
 * passed its place; and the store's news of a change may still be on their way.
 */
export class Suspects {
  /** How many have begun. */
  #lists = 0;
  #suspects = new Map<string, Suspect>();
  readonly #timers: Timers;
  readonly #relist: () => void;

  constructor(options: { timers: Timers; relist: () => void }) {
    this.#timers = options.timers;
    this.#relist = options.relist;
  }

  /** A list begins. */
  listing(): void {
    this.#lists += 1;
  }

  /**
   * In place of what was found before. Asks for a list when something is new and stays so; what is found
   * again waits for the one that was asked for then.
   */
  add({ orphans, contradicting }: Found): void {
    const before = this.#suspects;
    this.#suspects = new Map(
      [...orphans, ...contradicting].map((of) => {
        const name = nameOf(of);
        return [name, before.get(name) ?? { of, judgedBy: this.#lists + 1 }];
      }),
    );
    const news = [...this.#suspects.keys()].filter((name) => !before.has(name));
    if (news.length === 0) return;
    this.#timers.after(GRACE_MS, () => {
      if (news.some((name) => this.#suspects.has(name))) this.#relist();
    });
  }

  /** The job of a cursor has shown up. */
  seen(uid: string): void {
    this.#suspects.delete(uid);
  }

  /**
   * A list has ended: what it is new enough to judge. Of orphans only a `whole` one, without a gap, can
   * tell; until there is one they are kept, since found anew they would ask for one again and again.
   */
  listed(whole: boolean): Found {
    const orphans: string[] = [];
    const contradicting: Cursor[] = [];
    for (const [name, { of, judgedBy }] of this.#suspects) {
      if (judgedBy > this.#lists || (typeof of === "string" && !whole)) continue;
      this.#suspects.delete(name);
      if (typeof of === "string") orphans.push(of);
      else contradicting.push(of);
    }
    return { orphans, contradicting };
  }

  clear(): void {
    this.#suspects.clear();
  }
}

/** A cursor that was written since is another suspect. */
function nameOf(of: Suspect["of"]): string {
  return typeof of === "string" ? of : `${of.jobUid}/${of.version}`;
}
