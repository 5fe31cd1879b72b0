/** Fields of the resource, and their names in the REST API. */
const FIELDS: readonly (readonly [path: string, field: string])[] = [
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

/** REST's name of the field at this path of the resource, or around it; empty: it has none. */
export function restField(path: string): string {
  const known = FIELDS.find(([prefix]) => path === prefix || path.startsWith(`${prefix}[`));
  const nested = known ?? FIELDS.find(([prefix]) => path.startsWith(`${prefix}.`));
  return nested?.[1] ?? "";
}

/** The path in the resource of a field of REST: a reader of conditions looks at the resource. */
export function resourceField(name: string): string {
  return FIELDS.find(([, field]) => field === name)?.[0] ?? name;
}
