import { LRUCache } from "lru-cache";
import type { Cursor } from "../domain/cursor.ts";
import { timingOf, type Timing } from "../domain/timing.ts";
import { revisionOf } from "../domain/revision.ts";
import { outlineOf, type JobOutline } from "../domain/job-outline.ts";
import type { Job, JobSpec, JobStatus } from "../domain/job.ts";

/** One job as the controller keeps it. */
export interface JobEntry {
  job: JobOutline;
  /** `revisionOf` the whole job. */
  revision: string;
  timing: Timing;
  /** As counted in the gauge; undefined until the job is reconciled in this term of leadership. */
  status: JobStatus | undefined;
  /** Version of the cursor that was last reported; undefined: none in this term. */
  reported: number | undefined;
  /** Lost compare-and-sets in a row. */
  conflicts: number;
  /** The version of a cursor that contradicts the store and was proved wrong by a newer list; see `SuspectCursors`. */
  disproved: number | undefined;
}

/** Whether a change of a job matters for scheduling. Our own status writes come back as changes too. */
export type Relevance = "relevant" | "irrelevant";

/** Characters of the specs that are kept: those of 100,000 jobs with small payloads. */
const MOST_KEPT = 64 << 20;
/** What a spec takes beside its longest texts, about. */
const SPEC_SIZE = 500;

/**
 * Jobs and cursors in memory: the store's view on one side, PostgreSQL's on the other. Of a job whose revision
 * PostgreSQL has, only the outline is kept: what all jobs send may be more than fits into memory.
 */
export class JobView {
  readonly entries = new Map<string, JobEntry>();
  /** PostgreSQL's side, kept by the leader only. A cursor missing here may exist there: `RunLedger.apply` finds out. */
  readonly cursors = new Map<string, Cursor>();
  /** Specs that PostgreSQL may not have yet. When they are too much for `mostKept`, the oldest are left out. */
  readonly #specs: LRUCache<string, JobSpec>;
  /** Jobs whose spec was needed when it was not kept. */
  readonly #lacking = new Set<string>();

  constructor({ mostKept = MOST_KEPT }: { mostKept?: number | undefined } = {}) {
    this.#specs = new LRUCache({ maxSize: mostKept, sizeCalculation: sizeOf });
  }

  put(job: Job, listed?: "listed"): Relevance {
    const old = this.entries.get(job.uid);
    if (old === undefined) {
      const revision = revisionOf(job);
      this.entries.set(job.uid, {
        job: outlineOf(job),
        revision,
        timing: timingOf(job.spec),
        status: undefined,
        reported: undefined,
        conflicts: 0,
        disproved: undefined,
      });
      this.#keepSpec(job, revision);
      return "relevant";
    }
    // A watch may replay an older event. An older generation in a list means that the store was restored.
    if (job.generation < old.job.generation && listed === undefined) return "irrelevant";
    // In a watch a generation has one spec. A list may come from a restored store, where it has another.
    const sameGeneration = job.generation === old.job.generation && listed === undefined;
    const revision = sameGeneration ? old.revision : revisionOf(job);
    const sameSpec = revision === old.revision;
    // The old job stays, which others hold too: with an equal one beside it each job would be in memory twice.
    if (
      sameSpec &&
      job.account === old.job.account &&
      job.runNow === old.job.runNow &&
      !this.#lacking.has(job.uid)
    )
      return "irrelevant";
    if (!sameSpec) old.timing = timingOf(job.spec);
    old.revision = revision;
    old.job = outlineOf(job);
    this.#keepSpec(job, revision);
    return "relevant";
  }

  #keepSpec({ uid, spec }: Job, revision: string): void {
    this.#lacking.delete(uid);
    if (this.cursors.get(uid)?.revision === revision) this.#specs.delete(uid);
    else this.#specs.set(uid, spec);
  }

  /** The job's whole spec; undefined when it is not kept. */
  specOf(uid: string): JobSpec | undefined {
    return this.#specs.peek(uid);
  }

  /** The spec is needed and not kept: when the job is listed, it counts as changed. */
  lacksSpec(uid: string): void {
    if (this.entries.has(uid)) this.#lacking.add(uid);
  }

  /** Takes over what PostgreSQL has, as `setCursor` does; other cursors than these are dropped. */
  setCursors(cursors: Iterable<Cursor>): void {
    this.cursors.clear();
    for (const cursor of cursors) this.setCursor(cursor);
  }

  /**
   * Takes over a cursor that was read, and changes it: texts that are equal to the job's are replaced by the job's own,
   * of which they are copies. They would take 230 bytes for each job.
   */
  setCursor(cursor: Cursor): void {
    const entry = this.entries.get(cursor.jobUid);
    if (entry !== undefined) {
      const { job, revision, timing } = entry;
      cursor.jobUid = job.uid;
      if (cursor.account === job.account) cursor.account = job.account;
      if (cursor.revision === revision) {
        cursor.revision = revision;
        this.#specs.delete(job.uid);
      }
      if (cursor.scheduleHash === timing.hash) cursor.scheduleHash = timing.hash;
      if (cursor.lastRunNow === job.runNow) cursor.lastRunNow = job.runNow;
    }
    this.cursors.set(cursor.jobUid, cursor);
  }

  /** Leadership ends: cursors are not followed any more, and the next leader counts and reports anew. */
  endTerm(): void {
    this.cursors.clear();
    this.#lacking.clear();
    for (const entry of this.entries.values()) {
      entry.status = undefined;
      entry.reported = undefined;
    }
  }

  remove(uid: string): JobEntry | undefined {
    const entry = this.entries.get(uid);
    this.entries.delete(uid);
    this.cursors.delete(uid);
    this.#specs.delete(uid);
    this.#lacking.delete(uid);
    return entry;
  }
}

function sizeOf({ target }: JobSpec): number {
  if (target.kind === "email") return SPEC_SIZE + target.subject.length + target.body.length;
  const headers = Object.entries(target.headers);
  const sum = headers.reduce((size, [name, value]) => size + name.length + value.length, 0);
  return SPEC_SIZE + sum + target.payload.length;
}
