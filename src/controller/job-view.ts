import type { Cursor } from "../domain/cursor.ts";
import { timingOf, type Timing } from "../domain/timing.ts";
import { revisionOf } from "../domain/revision.ts";
import type { Job, JobStatus } from "../domain/job.ts";

/** One job as the controller keeps it. */
export interface JobEntry {
  job: Job;
  /** `revisionOf` the job. */
  revision: string;
  timing: Timing;
  /** As last counted; undefined until it was reconciled in this term of leadership. */
  status: JobStatus | undefined;
  /** Version of the cursor that the reporter was last told of; undefined: not told in this term. */
  reported: number | undefined;
  /** Lost compare-and-sets in a row. */
  conflicts: number;
  /** The version of a cursor that contradicts the store, and is older than a list that shows the job. */
  disproved: number | undefined;
}

/** Whether a change of a job bears on its schedule. Our own status writes come back as events too. */
export type Relevance = "relevant" | "irrelevant";

/** Jobs and cursors in memory: the store's view on one side, PostgreSQL's on the other. */
export class JobView {
  readonly entries = new Map<string, JobEntry>();
  /** PostgreSQL's side, kept by the leader only. What is missing here may exist there: `RunLedger.apply` tells. */
  cursors = new Map<string, Cursor>();

  put(job: Job, listed?: "listed"): Relevance {
    const old = this.entries.get(job.uid);
    if (old === undefined) {
      this.entries.set(job.uid, {
        job,
        revision: revisionOf(job),
        timing: timingOf(job.spec),
        status: undefined,
        reported: undefined,
        conflicts: 0,
        disproved: undefined,
      });
      return "relevant";
    }
    // A replayed event; the newer one has been seen. A list is no replay: the store has been restored.
    if (job.generation < old.job.generation && listed === undefined) return "irrelevant";
    // What a watch tells of has one spec a generation. Behind a list the store may have been restored.
    const known = job.generation === old.job.generation && listed === undefined;
    const revision = known ? old.revision : revisionOf(job);
    const sameSpec = revision === old.revision;
    const irrelevant = sameSpec && job.account === old.job.account && job.runNow === old.job.runNow;
    if (!sameSpec) old.timing = timingOf(job.spec);
    old.revision = revision;
    old.job = job;
    return irrelevant ? "irrelevant" : "relevant";
  }

  /** Leadership ends: PostgreSQL's side is not followed any more, and whoever leads next counts and reports anew. */
  endTerm(): void {
    this.cursors.clear();
    for (const entry of this.entries.values()) {
      entry.status = undefined;
      entry.reported = undefined;
    }
  }

  remove(uid: string): JobEntry | undefined {
    const entry = this.entries.get(uid);
    this.entries.delete(uid);
    this.cursors.delete(uid);
    return entry;
  }
}
