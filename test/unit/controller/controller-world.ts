import type { Cursor } from "../../../src/domain/cursor.ts";
import type { Instant } from "../../../src/domain/instant.ts";
import type { Job, JobSpec } from "../../../src/domain/job.ts";
import type { Clock, Timers } from "../../../src/domain/ports/clock.ts";
import {
  PositionExpired,
  type JobEvent,
  type JobPage,
  type JobStore,
} from "../../../src/domain/ports/job-store.ts";
import type { Leadership } from "../../../src/domain/ports/leadership.ts";
import { ContentRefused } from "../../../src/domain/ports/content-refused.ts";
import type {
  GoneJob,
  LedgerChange,
  LedgerNews,
  RunLedger,
} from "../../../src/domain/ports/run-ledger.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";

/** Time that only the test moves. Timers fire in order; the event loop turns between them. */
export class FakeTime implements Clock, Timers {
  #now: Instant;
  #ahead = 0;
  known = true;
  readonly #timers = new Set<{ at: number; callback: () => void }>();
  longestTimer = 0;
  get timers(): number {
    return this.#timers.size;
  }

  constructor(now: Instant) {
    this.#now = now;
  }
  now(): Instant {
    return this.#now + this.#ahead;
  }
  /** Moves only the clock: no timer comes nearer. */
  stepTo(target: Instant): void {
    this.#ahead = target - this.#now;
  }
  after(ms: number, callback: () => void): { cancel(): void } {
    this.longestTimer = Math.max(this.longestTimer, ms);
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }
  async advanceTo(moment: Instant): Promise<void> {
    const target = moment - this.#ahead;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter((t) => t.at <= target).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.callback();
      await settle();
    }
    this.#now = target;
    await settle();
  }
}

/** Lets everything run that waits for no timer. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1)
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
}

/** A job store in memory: the test decides about outages, expired positions and refused jobs. */
export class MemoryJobs implements Pick<JobStore, "list" | "watch"> {
  readonly jobs = new Map<string, Job>();
  #events: JobEvent[] = [];
  #expiredBefore = 0;
  #wake = new Set<() => void>();
  down = false;
  downWith: () => Error = () => new Error("store down");
  /** Jobs of a namespace that cannot be listed: they are not listed, but not deleted either. */
  readonly refused = new Set<string>();
  /** Lists wait for this before they are answered. */
  held: Promise<void> | undefined;
  lists = 0;

  put(job: Job): void {
    this.jobs.set(job.uid, job);
    this.#emit((position) => ({ type: "changed", job, position }));
  }
  remove(uid: string, quietly = false): void {
    const job = this.jobs.get(uid);
    this.jobs.delete(uid);
    if (job === undefined || quietly) return;
    this.#emit((position) => ({ type: "deleted", uid, position }));
  }
  /** Puts a job without an event, as if the event was lost. */
  putQuietly(job: Job): void {
    this.jobs.set(job.uid, job);
  }
  /** Expires all positions that have been given so far, even if nothing has changed since. */
  expire(): void {
    this.#events.push({ type: "bookmark", position: String(this.#events.length + 1) });
    this.#expiredBefore = this.#events.length;
    this.wake();
  }
  wake(): void {
    for (const wake of this.#wake) wake();
  }
  #emit(make: (position: string) => JobEvent): void {
    this.#events.push(make(String(this.#events.length + 1)));
    this.wake();
  }

  async list(options: { limit: number; continue?: string }): Promise<JobPage> {
    await this.held;
    if (this.down) throw this.downWith();
    this.lists += 1;
    const all = [...this.jobs.values()].filter((job) => !this.refused.has(job.uid));
    const [from = 0, position = this.#events.length] =
      options.continue?.split("/").map(Number) ?? [];
    const end = from + options.limit;
    return {
      jobs: all.slice(from, end),
      position: String(position),
      ...(end < all.length ? { continue: `${end}/${position}` } : {}),
      ...(this.refused.size > 0
        ? { refused: { namespace: "team-b", error: new Error("forbidden") } }
        : {}),
    };
  }

  async *watch(position: string, signal: AbortSignal): AsyncGenerator<JobEvent> {
    let at = Number(position);
    while (!signal.aborted) {
      if (at < this.#expiredBefore) throw new PositionExpired("too old");
      if (this.down) throw this.downWith();
      const event = this.#events[at];
      if (event !== undefined) {
        at += 1;
        yield event;
        continue;
      }
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#wake.delete(done);
          signal.removeEventListener("abort", done);
          resolve();
        };
        this.#wake.add(done);
        signal.addEventListener("abort", done);
      });
    }
  }
}

export interface CreatedRun {
  uid: string;
  key: string;
  scheduledAt: Instant;
  createdAt: Instant;
}

/** A ledger in memory, with the real one's compare-and-set and run identity. test/integration tests the real one. */
export class MemoryLedger implements RunLedger {
  readonly stored = new Map<string, Cursor>();
  /** The specs that came last, by uid. */
  readonly specs = new Map<string, JobSpec>();
  readonly runs: CreatedRun[] = [];
  readonly cancelled: string[] = [];
  readonly batches: number[] = [];
  /** The uids of each call of `cursors`. */
  readonly reads: (readonly string[])[] = [];
  down = false;
  /** Reads are answered and writes refused, as by a demoted primary. */
  readOnly = false;
  /** Jobs that the database refuses for their content. */
  readonly poison = new Set<string>();
  attempts = 0;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }
  #answer(): void {
    if (this.down) throw new Error("database down");
  }
  async cursors(uids: readonly string[]) {
    this.reads.push(uids);
    this.#answer();
    const found = uids.flatMap((uid) => this.stored.get(uid) ?? []);
    return new Map(found.map((cursor) => [cursor.jobUid, cursor]));
  }
  async unfinished() {
    this.#answer();
    return new Map();
  }
  async locked(_uids: readonly string[]) {
    this.#answer();
    return new Set<string>();
  }
  async apply(changes: readonly LedgerChange[]) {
    this.attempts += 1;
    this.#answer();
    if (this.readOnly) throw new DependencyUnavailable("postgres");
    if (changes.some(({ job }) => this.poison.has(job.uid))) throw new ContentRefused("poison");
    this.batches.push(changes.length);
    const conflicts: string[] = [];
    let created = 0;
    for (const { job, spec, from, to, create } of changes) {
      const { uid } = job;
      if (this.stored.get(uid)?.version !== from?.version) {
        conflicts.push(uid);
        continue;
      }
      if (from?.revision !== to.revision) {
        if (spec === undefined) throw new Error(`the change of ${uid} comes without its spec`);
        this.specs.set(uid, spec);
      }
      this.stored.set(uid, { ...to, jobUid: uid, version: (from?.version ?? 0) + 1 });
      for (const run of create) {
        if (this.runs.some((other) => other.uid === uid && other.key === run.key)) continue;
        const { key, scheduledAt } = run;
        this.runs.push({ uid, key, scheduledAt, createdAt: this.#clock.now() });
        created += 1;
      }
    }
    return { conflicts, created };
  }
  async orphans(known: ReadonlySet<string>) {
    this.#answer();
    return [...this.stored.values()]
      .filter((cursor) => !cursor.deleted && !known.has(cursor.jobUid))
      .map((cursor) => cursor.jobUid);
  }
  async cancelSome(uids: readonly string[]): Promise<boolean> {
    this.#answer();
    for (const uid of uids) {
      this.cancelled.push(uid);
      const cursor = this.stored.get(uid);
      if (cursor) this.stored.set(uid, { ...cursor, deleted: true, version: cursor.version + 1 });
    }
    return true;
  }
  async cancel(jobs: readonly GoneJob[]): Promise<void> {
    await this.cancelSome(jobs.map(({ uid }) => uid));
  }
  undeleted(): Promise<string[]> {
    return Promise.resolve([]);
  }
  runNow(): Promise<boolean> {
    return Promise.resolve(false);
  }
  async liftHalt(): Promise<void> {}
  /** Writes a cursor as a worker or a REST request does, without the leader. */
  write(uid: string, change: Partial<Cursor>): void {
    const cursor = this.stored.get(uid);
    if (cursor) this.stored.set(uid, { ...cursor, ...change, version: cursor.version + 1 });
  }
}

export class SpokenNews implements LedgerNews {
  #cursors = new Set<(uids: readonly string[] | undefined) => void>();
  #closed = new Set<(uids: readonly string[] | undefined) => void>();
  onCursors(listener: (uids: readonly string[] | undefined) => void): () => void {
    this.#cursors.add(listener);
    return () => this.#cursors.delete(listener);
  }
  onClosed(listener: (uids: readonly string[] | undefined) => void): () => void {
    this.#closed.add(listener);
    return () => this.#closed.delete(listener);
  }
  cursors(uids?: readonly string[]): void {
    for (const listener of this.#cursors) listener(uids);
  }
  closed(uids?: readonly string[]): void {
    for (const listener of this.#closed) listener(uids);
  }
}

export class SwitchableLeadership implements Leadership {
  #leading: boolean;
  /** Leadership has lapsed: `holds` says so before the listeners are told. */
  lapsed = false;
  readonly #listeners = new Set<(leading: boolean) => void>();
  constructor(leading: boolean) {
    this.#leading = leading;
  }
  holds(): boolean {
    return this.#leading && !this.lapsed;
  }
  onChange(listener: (leading: boolean) => void): () => void {
    this.#listeners.add(listener);
    listener(this.#leading);
    return () => this.#listeners.delete(listener);
  }
  set(leading: boolean): void {
    this.#leading = leading;
    this.lapsed = false;
    for (const listener of this.#listeners) listener(leading);
  }
  async run(): Promise<void> {}
}
