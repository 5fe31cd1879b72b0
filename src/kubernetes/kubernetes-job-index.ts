import type { Job } from "../domain/job.ts";
import { createJobRoster, type JobRoster } from "../domain/job-roster.ts";
import { listedJob } from "../domain/listed-job.ts";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Timer, Timers } from "../domain/ports/clock.ts";
import type { JobIndex } from "../domain/ports/job-index.ts";
import { JOBS_PER_PAGE, type JobStore } from "../domain/ports/job-store.ts";
import type { Logger } from "../telemetry/logger.ts";

/** An account is followed for so long after the last look; open dashboards look every few seconds. */
const IDLE_MS = 120_000;
/** Bytes of all followed accounts, about 200,000 usual jobs; a larger account is followed alone. */
const MAX_FOLLOWED_BYTES = 100 * 2 ** 20;
/** Each of them has a watch. */
const MAX_FOLLOWED_ACCOUNTS = 200;

export interface KubernetesJobIndexDependencies {
  /** The store that requests of this process write to. */
  jobs: JobStore;
  /** A store that sees one namespace only. */
  ofNamespace: (namespace: string) => Pick<JobStore, "list" | "watch">;
  accountNamespaces: Pick<AccountNamespaces, "namespaceOf">;
  timers: Timers;
  log: Logger;
}

/**
 * The index of the Kubernetes store. An account that somebody looks at is listed once and then watched, until
 * nobody has looked for two minutes. While the watch is down (or not allowed: the role needs `watch`) each look
 * lists again, so that what is shown is never older than the watch's delay.
 */
export function createKubernetesJobIndex(deps: KubernetesJobIndexDependencies): {
  index: JobIndex;
  /** The given `jobs`; the index knows of their writes at once, before the watch tells of them. */
  jobs: JobStore;
} {
  const { accountNamespaces, timers } = deps;
  /** By account; the one that was looked at most recently is the last. */
  const followed = new Map<string, Followed>();
  /** For each write under way, the uids of jobs whose deletion watches have told of meanwhile. */
  const writes = new Set<Set<string>>();

  function end(account: string, entry: Followed): void {
    entry.ending.abort();
    entry.idle?.cancel();
    if (followed.get(account) === entry) followed.delete(account);
  }

  function follow(account: string, namespace: string): Followed {
    const entry: Followed = {
      namespace,
      roster: createJobRoster(),
      listed: false,
      gone: new Set(),
      ending: new AbortController(),
      idle: undefined,
      begun: Promise.resolve(),
    };
    // Set before it is listed, so that it takes up what is written meanwhile.
    followed.set(account, entry);
    entry.begun = begin(account, entry);
    return entry;
  }

  /** Resolves when the list is read and the watch has answered or failed. */
  async function begin(account: string, entry: Followed): Promise<void> {
    const store = deps.ofNamespace(entry.namespace);
    try {
      let position: string | undefined;
      let next: string | undefined;
      do {
        const page = await store.list({ limit: JOBS_PER_PAGE, continue: next });
        for (const job of page.jobs) changed(account, entry, job);
        position ??= page.position;
        next = page.continue;
      } while (next !== undefined);
      entry.listed = true;
      makeRoom(account);
      await new Promise<void>((resolve) => {
        void watch({ account, entry, store, position: position ?? "", began: resolve });
      });
    } catch (error) {
      end(account, entry);
      throw error;
    }
  }

  function makeRoom(newest: string): void {
    let bytes = 0;
    for (const { roster } of followed.values()) bytes += roster.bytes;
    for (const [account, entry] of followed) {
      if (bytes <= MAX_FOLLOWED_BYTES && followed.size <= MAX_FOLLOWED_ACCOUNTS) return;
      if (account === newest) continue;
      bytes -= entry.roster.bytes;
      end(account, entry);
    }
  }

  /** Watches until it is aborted, or the watch fails, which the store's metrics count. The next look lists again. */
  async function watch(request: {
    account: string;
    entry: Followed;
    store: Pick<JobStore, "watch">;
    position: string;
    began: () => void;
  }): Promise<void> {
    const { account, entry, began } = request;
    try {
      for await (const event of request.store.watch(request.position, entry.ending.signal)) {
        if (event.type === "changed") changed(account, entry, event.job);
        else if (event.type === "deleted") {
          entry.roster.remove(event.uid);
          entry.gone.delete(event.uid);
          for (const ended of writes) ended.add(event.uid);
        }
        // The first event says that the server answers.
        began();
      }
    } catch (error) {
      deps.log.debug(
        { err: error },
        "the watch of an account's jobs ended; the next look lists them",
      );
    } finally {
      end(account, entry);
      began();
    }
  }

  function noteLook(account: string, entry: Followed): void {
    if (entry.ending.signal.aborted) return;
    followed.delete(account);
    followed.set(account, entry);
    entry.idle?.cancel();
    entry.idle = timers.after(IDLE_MS, () => {
      end(account, entry);
    });
  }

  /** The watch may tell that a job was deleted before this process has the answer to its earlier create or update. */
  async function wrote(write: Promise<Job>): Promise<Job> {
    const ended = new Set<string>();
    writes.add(ended);
    try {
      const job = await write;
      const entry = job.account === null ? undefined : followed.get(job.account);
      if (entry && job.account !== null && !ended.has(job.uid)) changed(job.account, entry, job);
      return job;
    } finally {
      writes.delete(ended);
    }
  }

  function removed(job: Job): void {
    const entry = job.account === null ? undefined : followed.get(job.account);
    if (!entry || (entry.listed && !entry.roster.has(job.uid))) return;
    entry.roster.remove(job.uid);
    entry.gone.add(job.uid);
  }

  return {
    index: {
      async jobs(account) {
        const namespace = await accountNamespaces.namespaceOf(account);
        const known = followed.get(account);
        if (known && known.namespace !== namespace) end(account, known);
        if (namespace === undefined) return [];
        const entry = followed.get(account) ?? follow(account, namespace);
        await entry.begun;
        noteLook(account, entry);
        return entry.roster.jobs();
      },
    },
    jobs: {
      ...deps.jobs,
      create: (input) => wrote(deps.jobs.create(input)),
      update: (job, spec) => wrote(deps.jobs.update(job, spec)),
      delete: async (job) => {
        await deps.jobs.delete(job);
        removed(job);
      },
      deleteUnchanged: async (job) => {
        const deleted = await deps.jobs.deleteUnchanged(job);
        if (deleted) removed(job);
        return deleted;
      },
    },
  };
}

interface Followed {
  namespace: string;
  roster: JobRoster;
  /** All pages are in the roster. */
  listed: boolean;
  /** Uids of jobs deleted here; the list or the watch may still tell of their earlier states. */
  gone: Set<string>;
  ending: AbortController;
  idle: Timer | undefined;
  /** Resolves when the list is read and the watch has answered or failed. Rejects when the list failed. */
  begun: Promise<void>;
}

function changed(account: string, { roster, gone }: Followed, job: Job): void {
  if (gone.has(job.uid)) return;
  // Otherwise the namespace was bound to another account a moment ago: it is listed anew when that is known here too.
  if (job.account === account) roster.put(listedJob(job));
  else roster.remove(job.uid);
}
