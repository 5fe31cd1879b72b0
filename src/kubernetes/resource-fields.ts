/** What a field of the resource is called by REST. */
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

/** REST's name for what is at this path of the resource, or in it; empty: it has none. */
export function restField(path: string): string {
  const known = FIELDS.find(([prefix]) => path === prefix || path.startsWith(`${prefix}[`));
  const nested = known ?? FIELDS.find(([prefix]) => path.startsWith(`${prefix}.`));
  return nested?.[1] ?? "";
}

/** Where the resource has what REST calls so: whoever reads a condition has the resource before him. */
export function resourceField(name: string): string {
  return FIELDS.find(([, field]) => field === name)?.[0] ?? name;
}
