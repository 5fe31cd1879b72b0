import { createHash } from "node:crypto";
import { canonicalJson } from "../domain/exact-json.ts";
import { whyUnready } from "./job-conditions.ts";
import { withoutNulls, type ScheduledJob, type ScheduledJobStatus } from "./scheduled-job.ts";
import { NOT_OBSERVED } from "./scheduled-job-status-schema.ts";

/** What the status writer must know of a resource that the domain's job does not carry. */
export interface RememberedResource {
  namespace: string;
  name: string;
  /** `statusDigest` of the stored status; empty when none was written yet. */
  digest: string;
  /** Condition type → its status and since when, so that an unchanged condition keeps its time. */
  transitions: ReadonlyMap<string, { status: string; since: string }>;
  /** `whyUnready` of the stored status. */
  unready: string;
}

/**
 * Fed by the job store's lists and watches, read by the status writer: a new leader knows without a single read
 * which of 100,000 statuses are already right. Each resource is kept as one text: 140 bytes without a status, 300
 * with three conditions, where objects took 690 (measured on Node 24).
 */
export interface ResourceMemory {
  seen(resource: ScheduledJob): void;
  wrote(uid: string, status: ScheduledJobStatus): void;
  get(uid: string): RememberedResource | undefined;
  forget(uid: string): void;
}

type Kept = [
  namespace: string,
  name: string,
  digest: string,
  unready: string,
  ...transitions: Transition[],
];
type Transition = [type: string, status: string, since: string];

export function createResourceMemory(): ResourceMemory {
  const resources = new Map<string, string>();
  const remember = (uid: string, namespace: string, name: string, status?: ScheduledJobStatus) => {
    const digest = status === undefined ? "" : statusDigest(status);
    const kept: Kept = [namespace, name, digest, whyUnready(status?.conditions)];
    for (const each of status?.conditions ?? [])
      kept.push([each.type, each.status, each.lastTransitionTime]);
    resources.set(uid, JSON.stringify(kept));
  };
  const get = (uid: string): RememberedResource | undefined => {
    const text = resources.get(uid);
    if (text === undefined) return undefined;
    const [namespace, name, digest, unready, ...transitions] = JSON.parse(text) as Kept;
    return {
      namespace,
      name,
      digest,
      unready,
      transitions: new Map(transitions.map(([type, status, since]) => [type, { status, since }])),
    };
  };
  return {
    seen({ metadata, status }) {
      const written = status?.observedGeneration === NOT_OBSERVED ? undefined : status;
      remember(metadata.uid, metadata.namespace, metadata.name, written);
    },
    wrote(uid, status) {
      const known = get(uid);
      if (known) remember(uid, known.namespace, known.name, status);
    },
    get,
    forget(uid) {
      resources.delete(uid);
    },
  };
}

/** Two statuses with the same digest say the same. */
export function statusDigest(status: ScheduledJobStatus): string {
  return createHash("sha1")
    .update(canonicalJson(withoutNulls(status)))
    .digest("base64url");
}
