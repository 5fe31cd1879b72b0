import type { Cursor } from "../domain/cursor.ts";
import { contradicts } from "../domain/decide.ts";
import type { Timers } from "../domain/ports/clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { JobEntry, JobView } from "./job-view.ts";

interface Suspect {
  /** An orphan, which is the uid of a cursor without a job, or a cursor that contradicts its job (`contradicts`). */
  of: string | Cursor;
  /** Number of the first list that is new enough to judge it. */
  judgedBy: number;
}

/** Time for news that are on their way: where two processes schedule, one of them learns of a job a moment later. */
const GRACE_MS = 1_000;

/**
 * Cursors that do not fit what the store has said, until a list that began later proves them right or wrong. They
 * may be right: another leader may have given a cursor to a job that was created after the list had passed its place,
 * and the store's news of a change may still be on their way.
 */
export class SuspectCursors {
  /** How many lists have begun. */
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
   * Replaces the suspects: `cursors` are all cursors, `orphans` the uids of those without a job. Asks for a list if
   * a new suspect is still one after `GRACE_MS`; for an old one a list was asked for when it was new.
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
   * A list has ended. Of the suspects that it is new enough to judge, returns the orphans and disproves the
   * cursors. Only a `whole` list, without a gap, can judge orphans. Until then they are kept: if they were found
   * anew, they would ask for another list each time.
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

  /** The job of the cursor, if the cursor contradicts it. */
  #contradicted(cursor: Cursor): JobEntry | undefined {
    const entry = this.#view.entries.get(cursor.jobUid);
    return entry && contradicts(cursor, entry.job) ? entry : undefined;
  }

  /** No news that would prove the cursor right can still be on their way: the next reconcile believes the store. */
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

/** Includes the version: a cursor that was written since is another suspect. */
function nameOf(of: Suspect["of"]): string {
  return typeof of === "string" ? of : `${of.jobUid}/${of.version}`;
}
