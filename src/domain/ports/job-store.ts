import type { Job, JobOwner, JobSpec } from "../job.ts";
import { DependencyUnavailable } from "./dependency-unavailable.ts";

/**
 * How many jobs a page has for those who read all jobs. A page is in memory as bytes, as text and as objects at once: a
 * store gives fewer jobs when they are large.
 */
export const JOBS_PER_PAGE = 500;

/**
 * Where jobs live: a PostgreSQL table (standalone, and without a cluster) or ScheduledJob resources (Kubernetes).
 * One conformance suite, test/conformance, holds both to this contract.
 */
export interface JobStore {
  /** Throws `JobExists` when the account has a job of that id. The generation of a new job is 1. */
  create(input: { account: string; id: string; spec: JobSpec }): Promise<Job>;
  get(account: string, id: string): Promise<Job | undefined>;
  /**
   * Oldest first, the id as tie-break. With `account`: its jobs, without payloads and bodies, which no list shows.
   * Without: every job of the installation. A job with a `refusal` comes without the payload or body that is too
   * large, in a watch too.
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
   * Changes after `position` in order, each at least once, with bookmarks in between. Ends when the signal aborts.
   * Throws `PositionExpired` when the position is too old (list again), `ChangeUnread` when there is a change that
   * could not be read completely, anything else when the connection is lost (watch again from the last position
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
  /** Where to begin a watch after the list. Use that of the last page. */
  position: string;
  /** In a list of all jobs: a namespace whose jobs could not be listed. They are unknown, not gone. */
  refused?: { namespace: string; error: Error };
}

export type JobEvent =
  | { type: "changed"; job: Job; position: string }
  | { type: "deleted"; uid: string; position: string }
  | { type: "bookmark"; position: string };

/** Something else that is needed to read a change is away. Until it has been read, the view is known to be behind. */
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
