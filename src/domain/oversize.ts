import type { Finding } from "./findings.ts";
import type { Job, Target } from "./job.ts";
import { LIMITS } from "./schema/fields.ts";

const KIB = 1_024;

/**
 * What of a target is larger than it may be. REST refuses it. In a resource the API server cannot: its rules
 * do not see into a payload whose members no schema names, and measure a text in characters, not bytes.
 */
export function oversize(target: Target): Finding | undefined {
  return target.kind === "webhook"
    ? finding("webhook_payload", payloadBytes(target.payload), LIMITS.payloadBytes)
    : finding("email_body", Buffer.byteLength(target.body), LIMITS.jobEmailBodyBytes);
}

/** The job without what `oversize` speaks of. */
export function withoutBulk(job: Job): Job {
  const { target } = job.spec;
  // No payload at all is no JSON: whoever would send or store this one by accident fails instead.
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

/** The most that a number grows in the API server's form: 1e20. */
const GROWTH = 21 / "1e20".length;

/** As written, or as the API server gives it back, where 1e20 has 21 digits: a job must not become too large by being stored. */
function payloadBytes(payload: string): number {
  const written = Buffer.byteLength(payload);
  // Most are far from the limit, also with all that a number may add to them.
  if (written > LIMITS.payloadBytes || written * GROWTH <= LIMITS.payloadBytes) return written;
  if (!/\d[eE]/.test(payload)) return written;
  return Math.max(written, Buffer.byteLength(JSON.stringify(JSON.parse(payload))));
}
