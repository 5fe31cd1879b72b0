import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { JobView } from "./job-view.ts";
import type { WorkQueue } from "./work-queue.ts";

/**
 * Milliseconds for which news are collected. When many jobs fire at once, some runs are closed by the hundred while the
 * others are still to be delivered, maybe by this process: the deliveries come first.
 */
const COLLECT = 300;

/**
 * Jobs whose cursor somebody else has written: a worker that closed a run, or a REST request. Their cursors are
 * read again.
 */
export class TouchedCursors {
  readonly #uids = new Set<string>();
  readonly #ledger: Pick<RunLedger, "cursors">;
  readonly #view: JobView;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  readonly #onDue: () => void;
  #collecting: Timer | undefined;

  constructor(options: {
    ledger: Pick<RunLedger, "cursors">;
    view: JobView;
    queue: WorkQueue;
    timers: Timers;
    /** Called when there are cursors to `load`. */
    onDue: () => void;
  }) {
    this.#ledger = options.ledger;
    this.#view = options.view;
    this.#queue = options.queue;
    this.#timers = options.timers;
    this.#onDue = options.onDue;
  }

  /** There are cursors to `load`, and collecting is over. */
  get due(): boolean {
    return this.#uids.size > 0 && this.#collecting === undefined;
  }

  add(uids: readonly string[]): void {
    const before = this.#uids.size;
    for (const uid of uids) if (this.#view.entries.has(uid)) this.#uids.add(uid);
    if (before > 0 || this.#uids.size === 0) return;
    this.#collecting = this.#timers.after(COLLECT, () => {
      this.#collecting = undefined;
      this.#onDue();
    });
  }

  clear(): void {
    this.#uids.clear();
    this.#stopCollecting();
  }

  #stopCollecting(): void {
    this.#collecting?.cancel();
    this.#collecting = undefined;
  }

  /**
   * Reads up to `limit` cursors and queues the jobs of those that are newer than the view; an older one was written
   * before our own last write. Throws when PostgreSQL fails; then they are kept for the next try.
   */
  async load(limit: number, current: () => boolean): Promise<void> {
    const uids = [...this.#uids].slice(0, limit);
    // Before the read: a job that is added again while the read is under way must be read once more.
    for (const uid of uids) this.#uids.delete(uid);
    const fresh = await this.#ledger.cursors(uids).catch((error: unknown) => {
      // They stay due: the caller's backoff decides when they are tried again.
      if (current()) {
        this.#stopCollecting();
        for (const uid of uids) this.#uids.add(uid);
      }
      throw error;
    });
    if (!current()) return;
    for (const [uid, cursor] of fresh) {
      if (!this.#view.entries.has(uid)) continue;
      if (cursor.version <= (this.#view.cursors.get(uid)?.version ?? 0)) continue;
      this.#view.setCursor(cursor);
      this.#queue.add(uid);
    }
  }
}
