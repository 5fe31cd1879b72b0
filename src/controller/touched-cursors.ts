import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { JobView } from "./job-view.ts";
import type { WorkQueue } from "./work-queue.ts";

/**
 * Milliseconds that news wait for company. A herd's runs are closed by the hundred while the rest of it is
 * still to be delivered, maybe by this process: that comes first.
 */
const COLLECT = 300;

/** Jobs whose cursor somebody else has written: a worker that closed a run, or a REST request. */
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
    /** Some are due to be loaded. */
    onDue: () => void;
  }) {
    this.#ledger = options.ledger;
    this.#view = options.view;
    this.#queue = options.queue;
    this.#timers = options.timers;
    this.#onDue = options.onDue;
  }

  /** Whether there are any that have waited long enough. */
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
   * Reads up to `limit` of them and queues those that are newer than the view: what was written before
   * our own last write is in that one. Throws when PostgreSQL fails; then they are kept for the next try.
   */
  async load(limit: number, current: () => boolean): Promise<void> {
    const uids = [...this.#uids].slice(0, limit);
    // Before the read: a job that is told of again while it is under way must be read again.
    for (const uid of uids) this.#uids.delete(uid);
    const fresh = await this.#ledger.cursors(uids).catch((error: unknown) => {
      // Due still, so that the next try is one: the caller's backoff is what they wait for.
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
      this.#view.cursors.set(uid, cursor);
      this.#queue.add(uid);
    }
  }
}
