import { byCreation } from "./job.ts";
import type { ListedJob } from "./listed-job.ts";

/**
 * The jobs of an account in order, kept up to date job by job. An equal job that comes again changes
 * nothing: not even the object that is handed out.
 */
export interface JobRoster {
  put(job: ListedJob): void;
  remove(uid: string): void;
  has(uid: string): boolean;
  /** Oldest first, the id as tie-break. A new array after each change. */
  jobs(): readonly ListedJob[];
  /** About how much memory the jobs take, a reader's copies of their texts for searching included. */
  readonly bytes: number;
}

/** For a job without its texts. */
const JOB_BYTES = 400;

export function createJobRoster(): JobRoster {
  const byUid = new Map<string, ListedJob>();
  let sorted: readonly ListedJob[] | undefined;
  let bytes = 0;
  return {
    put(job) {
      const known = byUid.get(job.uid);
      if (known && (known.generation > job.generation || isSame(known, job))) return;
      bytes += bytesOf(job) - (known ? bytesOf(known) : 0);
      byUid.set(job.uid, job);
      sorted = undefined;
    },
    remove(uid) {
      const known = byUid.get(uid);
      if (known === undefined) return;
      byUid.delete(uid);
      bytes -= bytesOf(known);
      sorted = undefined;
    },
    has: (uid) => byUid.has(uid),
    // A replaced job keeps its place in the Map, so that the sort finds nearly everything in order.
    jobs: () => (sorted ??= [...byUid.values()].sort(byCreation)),
    get bytes() {
      return bytes;
    },
  };
}

/** A name may have 255 characters and a URL 2,048; both are kept once more to be searched. */
function bytesOf(job: ListedJob): number {
  return JOB_BYTES + 2 * (job.spec.name.length + job.address.length);
}

function isSame(a: ListedJob, b: ListedJob): boolean {
  return (
    a.generation === b.generation &&
    a.account === b.account &&
    a.owner?.tool === b.owner?.tool &&
    a.owner?.name === b.owner?.name
  );
}
