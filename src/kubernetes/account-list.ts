import { LRUCache } from "lru-cache";
import { byCreation, type Job } from "../domain/job.ts";
import { withoutBulk } from "../domain/oversize.ts";
import type { Monotonic, Random } from "../domain/ports/clock.ts";
import { JOBS_PER_PAGE, type JobPage } from "../domain/ports/job-store.ts";
import { allPages, type ResourceList } from "./list-resources.ts";
import { jobFromResource } from "./scheduled-job.ts";

export interface AccountListDependencies {
  monotonic: Monotonic;
  random: Random;
  /** One page as the API server gives it. */
  listPage: (
    namespace: string,
    limit: number,
    continuation: string | undefined,
  ) => Promise<ResourceList>;
}

interface AccountPage {
  account: string;
  /** Undefined: it is bound to none. */
  namespace: string | undefined;
  limit: number;
  /** Token of the page before; undefined: the first one. */
  continue: string | undefined;
}

/** Between two pages of one reader. A slower reader only costs another read of the namespace. */
const KEPT_MS = 15_000;
/** Bytes of all kept lists, about; a larger list is kept alone. */
const MAX_KEPT_BYTES = 64 << 20;
/** Bytes of a job besides its target. */
const JOB_BYTES = 1_000;

/**
 * The jobs of one account, oldest first. The API server sorts by name only, so the first page reads the
 * whole namespace, sorts it, and keeps it for the pages that follow: a reader sees one snapshot, and the
 * namespace is read once for it instead of once a page. No other reader sees that snapshot. For a token that
 * comes to another process, or too late, the namespace is read again, and the page begins where the token says.
 */
export function createAccountList(
  dependencies: AccountListDependencies,
): (asked: AccountPage) => Promise<JobPage> {
  const { listPage, monotonic, random } = dependencies;
  const kept = new LRUCache<string, Snapshot>({
    maxSize: MAX_KEPT_BYTES,
    sizeCalculation: ({ bytes }) => Math.min(MAX_KEPT_BYTES, bytes),
    ttl: KEPT_MS,
    ttlResolution: 0,
    updateAgeOnGet: true,
    perf: { now: monotonic },
  });
  // Random, so that tokens of another process, or of this one before a restart, do not name a list of ours.
  let serial = Math.floor(random() * 2 ** 40);

  async function readAll(account: string, namespace: string): Promise<Snapshot> {
    const jobs: Job[] = [];
    let bytes = 0;
    let position = "";
    const read = (token: string | undefined) => listPage(namespace, JOBS_PER_PAGE, token);
    for await (const { metadata, items } of allPages(read)) {
      position ||= metadata.resourceVersion;
      for (const item of items) {
        if (item.metadata.deletionTimestamp !== undefined) continue;
        const job = withoutBulk(jobFromResource(item, account));
        jobs.push(job);
        bytes += JOB_BYTES + JSON.stringify(job.spec.target).length;
      }
    }
    // Creation times are whole seconds; `byCreation` then compares ids, which REST makes sortable.
    jobs.sort(byCreation);
    return { jobs, position, bytes };
  }

  return async ({ account, namespace, limit, continue: continuation }) => {
    if (namespace === undefined) return { jobs: [], position: "" };
    // Lists of readers who did not come back for the rest.
    kept.purgeStale();
    const token = continuation === undefined ? undefined : parseToken(continuation);
    const known = token && kept.get(keyOf(account, namespace, token.snapshot));
    const snapshot = known ?? (await readAll(account, namespace));
    const { jobs, position } = snapshot;

    const start = token === undefined ? 0 : indexAfter(jobs, token);
    const shown = jobs.slice(start, start + limit);
    const last = shown.at(-1);
    const number = known && token ? token.snapshot : (serial += 1);
    const key = keyOf(account, namespace, number);
    if (last === undefined || start + limit >= jobs.length) {
      kept.delete(key);
      return { jobs: shown, position };
    }
    if (known === undefined) kept.set(key, snapshot);
    return { jobs: shown, position, continue: `${number}/${last.createdAt}/${last.id}` };
  };
}

interface Snapshot {
  jobs: readonly Job[];
  position: string;
  bytes: number;
}

interface Token {
  /** Number of the kept list in the process that made the token. */
  snapshot: number;
  createdAt: number;
  id: string;
}

function keyOf(account: string, namespace: string, snapshot: number): string {
  return `${snapshot}/${namespace}/${account}`;
}

function parseToken(text: string): Token {
  const [snapshot, createdAt, ...id] = text.split("/");
  return { snapshot: Number(snapshot), createdAt: Number(createdAt), id: id.join("/") };
}

/** Where the page after the token begins, even if the token's job has been deleted meanwhile. */
function indexAfter(jobs: readonly Job[], token: Token): number {
  let [low, high] = [0, jobs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const job = jobs[middle];
    if (job !== undefined && byCreation(job, token) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
