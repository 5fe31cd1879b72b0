import type { Cursor } from "../domain/cursor.ts";
import { contradicts } from "../domain/decide.ts";
import type { Timers } from "../domain/ports/clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { JobEntry, JobView } from "./job-view.ts";

interface Suspect {
  /**
   * The uid of a cursor without a job, or a cursor that knows of a deletion, or of a later generation, of which the store
   * says nothing.
   */
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
  readonly #view: JobView;
  readonly #timers: Timers;
  readonly #log: Logger;
  readonly #relist: () => void;

  constructor(options: { view: JobView; timers: Timers; log: Logger; relist: () => void }) {
    this.#view = options.view;
    this.#timers = options.timers;
    this.#log = options.log;
    this.#relist = options.relist;
  }

  /** A list begins. */
  listing(): void {
    this.#lists += 1;
  }

  /**
   * All cursors, and the uids of those without a job, in place of what was found before. Asks for a list when something is
   * new and stays so; what is found again waits for the one that was asked for then.
   */
  found(cursors: Iterable<Cursor>, orphans: readonly string[]): void {
    const before = this.#suspects;
    const contradicting = [...cursors].filter((cursor) => {
      const entry = this.#contradicted(cursor);
      return entry !== undefined && entry.disproved !== cursor.version;
    });
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
   * A list has ended: returns the orphans that it is new enough to judge, and disproves the cursors that it is. Of orphans
   * only a `whole` one, without a gap, can tell; until there is one they are kept, since found anew they would ask for one
   * again and again.
   */
  listed(whole: boolean): string[] {
    const orphans: string[] = [];
    for (const [name, { of, judgedBy }] of this.#suspects) {
      if (judgedBy > this.#lists || (typeof of === "string" && !whole)) continue;
      this.#suspects.delete(name);
      if (typeof of === "string") orphans.push(of);
      else this.#disprove(of);
    }
    return orphans;
  }

  /** The job of a cursor that it contradicts. */
  #contradicted(cursor: Cursor): JobEntry | undefined {
    const entry = this.#view.entries.get(cursor.jobUid);
    return entry && contradicts(cursor, entry.job) ? entry : undefined;
  }

  /** No news are on their way that would bear out the cursor: the next reconcile believes the store. */
  #disprove(cursor: Cursor): void {
    const entry = this.#contradicted(cursor);
    if (entry === undefined) return;
    entry.disproved = cursor.version;
    const { id: job, uid, generation } = entry.job;
    this.#log.warn(
      { job, uid, generation, cursor: { generation: cursor.generation, deleted: cursor.deleted } },
      "the job store has a job, or a state of it, that was given up here before, as after a restored backup: taking it up again",
    );
  }

  clear(): void {
    this.#suspects.clear();
  }
}

/** A cursor that was written since is another suspect. */
function nameOf(of: Suspect["of"]): string {
  return typeof of === "string" ? of : `${of.jobUid}/${of.version}`;
}
