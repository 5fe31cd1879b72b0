import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { JobView } from "./job-view.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Jobs whose cursor somebody else has written: a worker that closed a run, or a REST request. */
export class TouchedCursors {
  readonly #uids = new Set<string>();
  readonly #ledger: Pick<RunLedger, "cursors">;
  readonly #view: JobView;
  readonly #queue: WorkQueue;

  constructor(options: { ledger: Pick<RunLedger, "cursors">; view: JobView; queue: WorkQueue }) {
    this.#ledger = options.ledger;
    this.#view = options.view;
    this.#queue = options.queue;
  }

  get size(): number {
    return this.#uids.size;
  }

  add(uids: readonly string[]): void {
    for (const uid of uids) if (this.#view.entries.has(uid)) this.#uids.add(uid);
  }

  clear(): void {
    this.#uids.clear();
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
      if (current()) this.add(uids);
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
