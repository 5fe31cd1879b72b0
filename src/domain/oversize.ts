import type { Finding } from "./findings.ts";
import type { Job, Target } from "./job.ts";
import { LIMITS } from "./schema/fields.ts";

const KIB = 1_024;

/**
 * The part of a target that is larger than it may be. REST refuses it. The API server cannot refuse it in a
 * resource: its rules do not see into a payload, which has no schema, and measure a text in characters, not bytes.
 */
export function oversize(target: Target): Finding | undefined {
  return target.kind === "webhook"
    ? finding("webhook_payload", payloadBytes(target.payload), LIMITS.payloadBytes)
    : finding("email_body", Buffer.byteLength(target.body), LIMITS.jobEmailBodyBytes);
}

/** The job without its payload or body. */
export function withoutBulk(job: Job): Job {
  const { target } = job.spec;
  // An empty text is not JSON: sending or storing this payload by accident fails.
  const bare = target.kind === "webhook" ? { ...target, payload: "" } : { ...target, body: "" };
  return { ...job, spec: { ...job.spec, target: bare } };
}

function finding(field: string, bytes: number, most: number): Finding | undefined {
  if (bytes <= most) return undefined;
  return {
    field,
    message: `must be at most ${most / KIB} KiB and is ${Math.ceil(bytes / KIB)} KiB: shorten it, or send a link to the rest`,
  };
}

/** The API server writes 1e20 as 21 digits; no other number grows by a larger factor. */
const GROWTH = 21 / "1e20".length;

/**
 * The larger of its size as written and as the API server gives it back: a job must not become too large by being
 * stored.
 */
function payloadBytes(payload: string): number {
  const written = Buffer.byteLength(payload);
  // Most are far from the limit, even if they were all numbers that grow.
  if (written > LIMITS.payloadBytes || written * GROWTH <= LIMITS.payloadBytes) return written;
  if (!/\d[eE]/.test(payload)) return written;
  return Math.max(written, Buffer.byteLength(JSON.stringify(JSON.parse(payload))));
}
