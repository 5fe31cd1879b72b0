import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Milliseconds between checks whether they are still locked. */
const LOOK = 1_000;

/**
 * Jobs whose rows somebody, for instance an administrator, has locked in PostgreSQL. They stay aside in the queue until
 * the locks are released. So all other jobs wait for a lock only once, and not with each try.
 */
export class LockedJobs {
  readonly #ledger: Pick<RunLedger, "locked">;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  readonly #onDue: () => void;
  #looking: Timer | undefined;

  constructor(options: {
    ledger: Pick<RunLedger, "locked">;
    queue: WorkQueue;
    timers: Timers;
    /** It is time to look again. */
    onDue: () => void;
  }) {
    this.#ledger = options.ledger;
    this.#queue = options.queue;
    this.#timers = options.timers;
    this.#onDue = options.onDue;
  }

  get due(): boolean {
    return this.#queue.aside.size > 0 && this.#looking === undefined;
  }

  /** Puts aside those of `uids` that are locked, and returns them; none when it cannot be asked for now. */
  async putAside(uids: readonly string[], current: () => boolean): Promise<readonly string[]> {
    if (uids.length === 0) return [];
    const locked = await this.#ledger.locked(uids).catch(() => new Set<string>());
    if (locked.size === 0 || !current()) return [];
    this.#queue.putAside(locked);
    this.#lookLater();
    return [...locked];
  }

  /** Queues the jobs that are no longer locked. Throws when PostgreSQL fails. */
  async look(current: () => boolean): Promise<void> {
    const uids = [...this.#queue.aside];
    // A lock of the moment is looked at again soon; waiting for its end here would hold up scheduling.
    const locked = await this.#ledger.locked(uids, { briefly: true });
    if (!current()) return;
    for (const uid of uids) if (!locked.has(uid)) this.#queue.takeBack(uid);
    if (locked.size > 0) this.#lookLater();
  }

  clear(): void {
    this.#looking?.cancel();
    this.#looking = undefined;
  }

  #lookLater(): void {
    this.#looking ??= this.#timers.after(LOOK, () => {
      this.#looking = undefined;
      this.#onDue();
    });
  }
}
