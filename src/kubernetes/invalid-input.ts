import { InvalidInput } from "../domain/findings.ts";
import type { Finding } from "../domain/findings.ts";
import { ApiError } from "./api-error.ts";

/** Resource fields in the REST API's words; the longest matching path wins. */
const REST_FIELDS: readonly (readonly [path: string, field: string])[] = [
  ["spec.displayName", "name"],
  ["spec.schedule.cron", "cron_expression"],
  ["spec.schedule.timeZone", "timezone"],
  ["spec.schedule.at", "run_at"],
  ["spec.webhook.url", "webhook_url"],
  ["spec.webhook.payload", "webhook_payload"],
  ["spec.webhook.headers", "webhook_headers"],
  ["spec.webhook.timeoutSeconds", "timeout_seconds"],
  ["spec.email.to", "email_to"],
  ["spec.email.subject", "email_subject"],
  ["spec.email.body", "email_body"],
  ["spec.email.isHtml", "email_is_html"],
  ["spec.startingDeadlineSeconds", "starting_deadline_seconds"],
  ["spec.deliveryDeadlineSeconds", "delivery_deadline_seconds"],
  ["spec.concurrencyPolicy", "concurrency_policy"],
  ["spec.retry.maxRetries", "max_retries"],
  ["spec.retry.minBackoffSeconds", "min_backoff_seconds"],
  ["spec.retry.maxBackoffSeconds", "max_backoff_seconds"],
];

/**
 * What the API server found wrong with a job: schema, CEL rules (422 with causes), or an admission
 * policy or webhook of the cluster (any 4xx, with its own words). Undefined: something else.
 */
export function invalidInput(error: unknown): InvalidInput | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const causes = error.status?.details?.causes ?? [];
  const message = error.status?.message ?? error.message;
  if (error.code === 422) {
    const findings = causes.map((cause): Finding => ({
      field: restField(cause.field ?? ""),
      message: plain(cause.message ?? cause.reason ?? "is invalid", cause.field ?? ""),
    }));
    return new InvalidInput(findings.length > 0 ? findings : [{ field: "", message }]);
  }
  // A policy says no with any 4xx it likes; RBAC's 403 is our own installation's fault, not the caller's.
  const admission = /admission webhook|ValidatingAdmissionPolicy|exceeded quota/.test(message);
  if (error.code >= 400 && error.code < 500 && admission)
    return new InvalidInput([{ field: "", message }]);
  return undefined;
}

function restField(path: string): string {
  const known = REST_FIELDS.find(([prefix]) => path === prefix || path.startsWith(`${prefix}[`));
  const nested = known ?? REST_FIELDS.find(([prefix]) => path.startsWith(`${prefix}.`));
  return nested?.[1] ?? "";
}

/** Without `Invalid value: "…": ` and `spec.x in body `, which repeat what the caller sent and where. */
function plain(message: string, path: string): string {
  const said = message.replace(/^Invalid value: (?:"(?:[^"\\]|\\.)*"|\S+): /s, "");
  return said.startsWith(`${path} in body `) ? said.slice(`${path} in body `.length) : said;
}
