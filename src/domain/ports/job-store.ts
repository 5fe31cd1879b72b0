import type { Job, JobOwner, JobSpec } from "../job.ts";
import { DependencyUnavailable } from "./dependency-down.ts";

/**
 * How many jobs to ask for at a time, who reads them all. A page is in memory as bytes, as text and as objects at once:
 * where they are large a store gives fewer.
 */
export const JOBS_PER_PAGE = 500;

/**
 * Where jobs live: a Postgres table (standalone) or ScheduledJob resources (Kubernetes).
 * One conformance suite, test/conformance, holds both to this contract.
 */
export interface JobStore {
  /** Throws `JobExists` when the account has a job of that id. The generation of a new job is 1. */
  create(input: { account: string; id: string; spec: JobSpec }): Promise<Job>;
  get(account: string, id: string): Promise<Job | undefined>;
  /**
   * Oldest first, the id as tie-break. Of an `account`: without payloads and bodies, which whoever shows a list has no
   * use for. Without `account`: every job of the installation. Of one with a `refusal` what is too large is left out, here
   * and by a watch.
   */
  list(options: { account?: string; limit: number; continue?: string }): Promise<JobPage>;
  /**
   * Replaces the spec of the job as read. Throws `VersionConflict` when it changed since,
   * `JobNotFound` when it is gone (or is another incarnation), `JobOwned` when a GitOps tool manages it.
   * An equal spec is a no-op that keeps the generation.
   */
  update(job: Job, spec: JobSpec): Promise<Job>;
  /** Deletes this incarnation. Throws `JobNotFound` and `JobOwned` as update does. */
  delete(job: Job): Promise<void>;
  /**
   * Deletes this incarnation if REST made it, nobody else manages it, and nothing but its status has changed
   * since it was read. False, and nothing happens, where one of these is not so.
   */
  deleteUnchanged(job: Job): Promise<boolean>;
  /**
   * Changes after `position` in order, each at least once, with bookmarks in between. Ends when the
   * signal aborts; throws `PositionExpired` when the position is too old (list again), `ChangeUnread` when there is a
   * change that could not be taken in, anything else when the connection is lost (watch again from the last position
   * seen).
   */
  watch(position: string, signal: AbortSignal): AsyncIterable<JobEvent>;
  /** Resolves when the store answers; for /readyz. */
  ping(): Promise<void>;
}

export interface JobPage {
  /** At most as many as were asked for; fewer do not mean that it is the last page. */
  jobs: Job[];
  /** Token for the next page; undefined on the last one. */
  continue?: string;
  /** Where a watch takes up after this list; of its last page. */
  position: string;
  /** A namespace whose jobs this page of all jobs does not have: they are unknown, not gone. */
  refused?: { namespace: string; error: Error };
}

export type JobEvent =
  | { type: "changed"; job: Job; position: string }
  | { type: "deleted"; uid: string; position: string }
  | { type: "bookmark"; position: string };

/** What else a change has to be judged by is away. Until it has been taken in, the view is known to be behind. */
export class ChangeUnread extends DependencyUnavailable {
  override name = "ChangeUnread";
}

export class JobExists extends Error {
  override name = "JobExists";
}
export class JobNotFound extends Error {
  override name = "JobNotFound";
}
export class VersionConflict extends Error {
  override name = "VersionConflict";
}
export class PositionExpired extends Error {
  override name = "PositionExpired";
}
export class JobOwned extends Error {
  override name = "JobOwned";
  readonly owner: JobOwner;
  constructor(owner: JobOwner) {
    super(`the job is managed by ${owner.tool} (${owner.name})`);
    this.owner = owner;
  }
}
