import { createHash } from "node:crypto";
import type { Instant } from "../domain/instant.ts";
import { isResourceName } from "../domain/kubernetes-name.ts";
import { uuidV7 } from "../domain/uuid-v7.ts";

/**
 * `job-` and a UUIDv7 (RFC 9562): sortable by creation and, being lower case, a valid name of a
 * Kubernetes resource. `random` are 10 bytes.
 */
export function newJobId(now: Instant, random: Uint8Array): string {
  return `job-${uuidV7(now, random)}`;
}

/** The id is the same for every create with this Idempotency-Key: a retry finds the job of the first try. */
export function derivedJobId(account: string, idempotencyKey: string): string {
  const hash = createHash("sha256")
    .update(JSON.stringify([account, idempotencyKey]))
    .digest("hex");
  return `job-${hash.slice(0, 32)}`;
}

/** Matches ids made here, and not the names that people give. PostgreSQL is asked with the same expression. */
export const OUR_JOB_ID = /^job-([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/;

/** False: no resource can have this name, so that no job has it. */
export function canBeJobId(id: string): boolean {
  return isResourceName(id);
}
