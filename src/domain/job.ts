import type { Finding } from "./findings.ts";
import type { Instant } from "./instant.ts";

/**
 * When a job fires. `expression` is as its author wrote it; `compileSchedule` says whether it is valid. Jobs may share
 * one.
 */
export type Schedule =
  | { readonly kind: "cron"; readonly expression: string; readonly timeZone: string }
  | { readonly kind: "once"; readonly at: Instant };

export interface WebhookTarget {
  kind: "webhook";
  url: string;
  /** The JSON text that is sent, byte for byte. `{}` when the author gave none. */
  payload: string;
  headers: Record<string, string>;
  /** Header values resolved from Secrets at each attempt; Kubernetes only. */
  headersFrom: readonly SecretHeader[];
  timeoutSeconds: number;
}

export interface SecretHeader {
  header: string;
  secretName: string;
  secretKey: string;
}

export interface EmailTarget {
  kind: "email";
  to: string;
  subject: string;
  body: string;
  isHtml: boolean;
}

export type Target = WebhookTarget | EmailTarget;

export const CONCURRENCY_POLICIES = ["Allow", "Forbid", "Replace"] as const;
export type ConcurrencyPolicy = (typeof CONCURRENCY_POLICIES)[number];

/** Jobs may share one. */
export interface RetryPolicy {
  /** Attempts after the first: 0 (at most one delivery) to 10 (at least once). */
  readonly maxRetries: number;
  readonly minBackoffSeconds: number;
  readonly maxBackoffSeconds: number;
}

/** What the author asks for. Changes to it, and only they, raise the job's generation. */
export interface JobSpec {
  /** Friendly name, REST `name`. */
  name: string;
  schedule: Schedule;
  target: Target;
  suspend: boolean;
  /** How late a missed fire time may still run; null: no limit. */
  startingDeadlineSeconds: number | null;
  /** How long a run may wait for an open circuit before it fails. */
  deliveryDeadlineSeconds: number;
  concurrencyPolicy: ConcurrencyPolicy;
  retry: RetryPolicy;
  /**
   * Why nothing can run by this spec, whatever its schedule: a resource may hold more than REST accepts. Lists and
   * watches leave out the payload or body that is too large, so that nobody keeps it in memory.
   */
  refusal?: Finding;
}

export const SPEC_DEFAULTS = {
  timeZone: "UTC",
  payload: "{}",
  timeoutSeconds: 30,
  deliveryDeadlineSeconds: 3600,
  concurrencyPolicy: "Allow",
  maxRetries: 0,
  minBackoffSeconds: 5,
  maxBackoffSeconds: 3600,
} as const;

/** Who else manages the resource (a GitOps tool), for the 409 of REST changes. */
export interface JobOwner {
  tool: string;
  name: string;
}

export interface Job {
  /** One incarnation: never reused, also when a job of the same id is created again. */
  uid: string;
  /** Null: the namespace is bound to no account; such a job never runs. */
  account: string | null;
  /** REST `id`, the resource's name. Unique within the account while the job exists. */
  id: string;
  /** Raised by every change of `spec`. A run belongs to the generation it was created from. */
  generation: number;
  /** Opaque token for optimistic concurrency. */
  version: string;
  createdAt: Instant;
  spec: JobSpec;
  owner: JobOwner | null;
  /** Value of the `carillon.dev/run-now` annotation; each new value asks for one run. */
  runNow: string | null;
}

/** The order of every list of jobs: oldest first, the id as tie-break. */
export function byCreation(
  a: Pick<Job, "createdAt" | "id">,
  b: Pick<Job, "createdAt" | "id">,
): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

export const JOB_STATUSES = ["active", "paused", "completed", "failed", "invalid"] as const;
/** REST `status`. */
export type JobStatus = (typeof JOB_STATUSES)[number];
