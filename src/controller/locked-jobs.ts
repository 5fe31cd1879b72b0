import type { Monotonic, Timer, Timers } from "../domain/ports/clock.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createSwarmWarning } from "../telemetry/swarm-warning.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Milliseconds between checks whether they are still locked. */
const LOOK = 1_000;
/** Jobs that one question names: it looks at their runs too, and other work goes on between two questions. */
const AT_ONCE = 200;

/**
 * Jobs whose rows somebody, for instance an administrator, has locked in PostgreSQL. They stay aside in the queue until
 * the locks are released. So all other jobs wait for a lock only once, and not with each try.
 */
export class LockedJobs {
  readonly #ledger: Pick<RunLedger, "locked">;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  readonly #onDue: () => void;
  readonly #warn: ReturnType<typeof createSwarmWarning>;
  #looking: Timer | undefined;
  /** Those that the check under way has not asked about yet. */
  #unasked: string[] = [];

  constructor(options: {
    ledger: Pick<RunLedger, "locked">;
    queue: WorkQueue;
    timers: Timers;
    monotonic: Monotonic;
    log: Logger;
    /** It is time to look again. */
    onDue: () => void;
  }) {
    this.#ledger = options.ledger;
    this.#queue = options.queue;
    this.#timers = options.timers;
    this.#onDue = options.onDue;
    this.#warn = createSwarmWarning({
      log: options.log,
      monotonic: options.monotonic,
      message:
        "somebody holds a lock on jobs or their runs in PostgreSQL: they are scheduled when it is released",
    });
  }

  get due(): boolean {
    return this.#queue.aside.size > 0 && this.#looking === undefined;
  }

  /** Puts aside those of `uids` that are locked, so that the others go on. False: none are, or asking fails. */
  async putAside(uids: readonly string[], current: () => boolean): Promise<boolean> {
    if (uids.length === 0) return false;
    const locked = await this.#ledger.locked(uids).catch(() => new Set<string>());
    const [first] = locked;
    if (first === undefined || !current()) return false;
    this.#queue.putAside(locked);
    this.#lookAfter(LOOK);
    this.#warn({ jobs: locked.size, uid: first });
    return true;
  }

  /**
   * While some jobs are locked, the others of a batch: whoever holds one lock may hold many, and each that fell due by
   * itself would be waited for anew.
   */
  async others(uids: readonly string[], current: () => boolean): Promise<readonly string[]> {
    if (this.#queue.aside.size === 0 || uids.length === 0) return uids;
    await this.putAside(uids, current);
    return uids.filter((uid) => !this.#queue.aside.has(uid));
  }

  /** Asks about the next `AT_ONCE` jobs that are aside, and queues those that are no longer locked. */
  async look(current: () => boolean): Promise<void> {
    if (this.#unasked.length === 0) this.#unasked = [...this.#queue.aside];
    const uids = this.#unasked.splice(0, AT_ONCE);
    // Looks once: a lock of the moment is seen to be gone by the next check, and waiting for its end here would hold up
    // scheduling. So would asking again at once where PostgreSQL does not answer: then all count as locked.
    const locked = await this.#ledger
      .locked(uids, { briefly: true })
      .catch(() => new Set<string>(uids));
    if (!current()) return;
    for (const uid of uids) if (!locked.has(uid)) this.#queue.takeBack(uid);
    if (this.#queue.aside.size > 0) this.#lookAfter(this.#unasked.length > 0 ? 1 : LOOK);
  }

  clear(): void {
    this.#looking?.cancel();
    this.#looking = undefined;
    this.#unasked = [];
  }

  #lookAfter(ms: number): void {
    this.#looking ??= this.#timers.after(ms, () => {
      this.#looking = undefined;
      this.#onDue();
    });
  }
}
