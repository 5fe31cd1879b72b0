import { parseAddress } from "./address.ts";
import type { Finding } from "./findings.ts";
import { isoUtc, type Instant } from "./instant.ts";
import {
  SPEC_DEFAULTS,
  type EmailTarget,
  type JobSpec,
  type Schedule,
  type Target,
  type WebhookTarget,
} from "./job.ts";
import { oversize } from "./oversize.ts";
import { webhookHeaderFindings } from "./webhook-headers.ts";
import { compileSchedule, parseRunAt } from "./schedule.ts";
import { KINDS, type RestJobCreate, type RestJobPatch } from "./schema/rest-job.ts";

/** A REST body that passed its schema. `payloadText` is `webhook_payload` as it stood in the body. */
export interface RestJobRequest<T> {
  fields: T;
  payloadText: string | undefined;
  now: Instant;
}

export type SpecResult = { ok: true; spec: JobSpec } | { ok: false; findings: readonly Finding[] };

/** `POST /jobs`: REST fields to a spec, with everything that a schema cannot say checked. */
export function specFromRest(request: RestJobRequest<RestJobCreate>): SpecResult {
  return build(request, undefined);
}

/**
 * `PATCH /jobs/{id}`: lays the patch over the spec and validates the result as a whole. A `run_at` that
 * is not changed may lie in the past: a job that ran can still be renamed.
 */
export function patchedSpec(previous: JobSpec, request: RestJobRequest<RestJobPatch>): SpecResult {
  const patch = request.fields;
  const before = restFields(previous);
  const kind: Kind = {
    type: patch.type ?? before.type,
    schedule_type: patch.schedule_type ?? before.schedule_type,
  };
  const merged: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(before))
    if (value !== null && name !== "webhook_payload" && !ofOtherKind(name, kind))
      merged[name] = value;
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = value;
  }
  const kept = previous.target.kind === "webhook" ? previous.target.payload : undefined;
  const payloadText =
    patch.webhook_payload === undefined && merged["type"] === "webhook"
      ? kept
      : request.payloadText;
  return build({ fields: merged as RestJobCreate, payloadText, now: request.now }, previous);
}

/** Every field of the job table and the policies; inapplicable ones null. */
export function restFields(spec: JobSpec) {
  const { schedule, target } = spec;
  const cron = schedule.kind === "cron" ? schedule : undefined;
  const webhook = target.kind === "webhook" ? target : undefined;
  const email = target.kind === "email" ? target : undefined;
  return {
    name: spec.name,
    type: target.kind,
    schedule_type: cron ? ("cron" as const) : ("one_time" as const),
    cron_expression: cron?.expression ?? null,
    run_at: schedule.kind === "once" ? isoUtc(schedule.at) : null,
    timezone: cron?.timeZone ?? null,
    webhook_url: webhook?.url ?? null,
    /** JSON text: written into the answer as it is. */
    webhook_payload: webhook?.payload ?? null,
    webhook_headers: webhook?.headers ?? null,
    timeout_seconds: webhook?.timeoutSeconds ?? null,
    email_to: email?.to ?? null,
    email_subject: email?.subject ?? null,
    email_body: email?.body ?? null,
    email_is_html: email?.isHtml ?? null,
    max_retries: spec.retry.maxRetries,
    min_backoff_seconds: spec.retry.minBackoffSeconds,
    max_backoff_seconds: spec.retry.maxBackoffSeconds,
    starting_deadline_seconds: spec.startingDeadlineSeconds,
    delivery_deadline_seconds: spec.deliveryDeadlineSeconds,
    concurrency_policy: spec.concurrencyPolicy,
  };
}

type Kind = Pick<RestJobCreate, keyof typeof KINDS>;

/** The fields that only one kind of job has. */
const ONLY_FOR = new Map<string, { by: keyof Kind; is: string }>();
for (const by of ["type", "schedule_type"] as const)
  for (const [is, { needs, takes }] of Object.entries(KINDS[by]))
    for (const name of [...needs, ...takes]) ONLY_FOR.set(name, { by, is });

/** Which kind of job the field is for, if that is another one. */
function ofOtherKind(name: string, kind: Kind): { by: string; is: string } | undefined {
  const only = ONLY_FOR.get(name);
  return only && kind[only.by] !== only.is ? only : undefined;
}

function build(request: RestJobRequest<RestJobCreate>, previous: JobSpec | undefined): SpecResult {
  const { fields } = request;
  const findings: Finding[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined) continue;
    const only = ofOtherKind(name, fields);
    if (only) findings.push({ field: name, message: `is only for ${only.by} ${only.is}` });
  }
  const schedule = scheduleOf(request, previous, findings);
  const target = targetOf(request, previous, findings);
  const retry = {
    // JSON has a -0, which no store gives back.
    maxRetries: (fields.max_retries ?? SPEC_DEFAULTS.maxRetries) + 0,
    minBackoffSeconds: fields.min_backoff_seconds ?? SPEC_DEFAULTS.minBackoffSeconds,
    maxBackoffSeconds: fields.max_backoff_seconds ?? SPEC_DEFAULTS.maxBackoffSeconds,
  };
  if (retry.minBackoffSeconds > retry.maxBackoffSeconds)
    findings.push({
      field: "min_backoff_seconds",
      message: `must not exceed max_backoff_seconds (${retry.maxBackoffSeconds})`,
    });
  if (!schedule || !target || findings.length > 0) return { ok: false, findings };
  return {
    ok: true,
    spec: {
      name: fields.name,
      schedule,
      target,
      suspend: previous?.suspend ?? false,
      startingDeadlineSeconds: fields.starting_deadline_seconds ?? null,
      deliveryDeadlineSeconds:
        fields.delivery_deadline_seconds ?? SPEC_DEFAULTS.deliveryDeadlineSeconds,
      concurrencyPolicy: fields.concurrency_policy ?? SPEC_DEFAULTS.concurrencyPolicy,
      retry,
    },
  };
}

function scheduleOf(
  { fields, now }: RestJobRequest<RestJobCreate>,
  previous: JobSpec | undefined,
  findings: Finding[],
): Schedule | undefined {
  if (fields.schedule_type === "one_time") {
    const runAt = needed(fields, "run_at", "schedule_type is one_time", findings);
    if (runAt === undefined) return undefined;
    const old = previous?.schedule;
    if (old?.kind === "once" && isSameMoment(runAt, old.at)) return old;
    const at = parseRunAt(runAt, now);
    if (typeof at === "number") return { kind: "once", at };
    findings.push({ field: "run_at", message: at.message });
    return undefined;
  }
  const expression = needed(fields, "cron_expression", "schedule_type is cron", findings);
  if (expression === undefined) return undefined;
  const timeZone = fields.timezone ?? SPEC_DEFAULTS.timeZone;
  const schedule: Schedule = { kind: "cron", expression, timeZone };
  const compiled = compileSchedule(schedule);
  if (compiled.ok) return schedule;
  findings.push(compiled.finding);
  return undefined;
}

/** A text that only one kind of job has, and needs; undefined, with a finding, when it is not there. */
function needed(
  fields: RestJobCreate,
  field: "run_at" | "cron_expression" | "webhook_url" | "email_to" | "email_subject" | "email_body",
  when: string,
  findings: Finding[],
): string | undefined {
  const value = fields[field] ?? undefined;
  if (value === undefined) findings.push({ field, message: `is required when ${when}` });
  return value;
}

/** Whatever the spelling, and whether or not the moment may still be chosen. */
function isSameMoment(text: string, at: Instant): boolean {
  return text === isoUtc(at) || parseRunAt(text, at) === at;
}

function targetOf(
  request: RestJobRequest<RestJobCreate>,
  previous: JobSpec | undefined,
  findings: Finding[],
): Target | undefined {
  return request.fields.type === "webhook"
    ? webhookOf(request, previous, findings)
    : emailOf(request.fields, findings);
}

function webhookOf(
  { fields, payloadText }: RestJobRequest<RestJobCreate>,
  previous: JobSpec | undefined,
  findings: Finding[],
): WebhookTarget | undefined {
  const url = needed(fields, "webhook_url", "type is webhook", findings);
  if (url === undefined) return undefined;
  const before = previous?.target.kind === "webhook" ? previous.target : undefined;
  const problem =
    webhookUrlProblem(url) ?? (before === undefined ? null : secretsGoElsewhere(before, url));
  if (problem !== null) findings.push({ field: "webhook_url", message: problem });
  const payload = payloadText ?? SPEC_DEFAULTS.payload;
  const headers = fields.webhook_headers ?? {};
  const target: WebhookTarget = {
    kind: "webhook",
    url,
    payload,
    headers,
    // Set through the Kubernetes API only; a REST change of other fields keeps it.
    headersFrom: before?.headersFrom ?? [],
    timeoutSeconds: fields.timeout_seconds ?? SPEC_DEFAULTS.timeoutSeconds,
  };
  const tooLarge = oversize(target);
  if (tooLarge) findings.push(tooLarge);
  findings.push(...webhookHeaderFindings(headers));
  return target;
}

/**
 * Kubernetes' RBAC decides who may use Secrets: the holder of an API key must not get their values sent to a
 * receiver of their own choice.
 */
function secretsGoElsewhere(before: WebhookTarget, url: string): string | null {
  if (before.headersFrom.length === 0) return null;
  return URL.parse(before.url)?.origin === URL.parse(url)?.origin
    ? null
    : "must stay on the same origin, since headers from Secrets go there: change it with kubectl";
}

/** Null when the text is a URL that a webhook may have, as far as can be told without a network. */
export function webhookUrlProblem(text: string): string | null {
  // The WHATWG parser strips tabs, newlines and outer spaces: the URL called would not be the one stored.
  if (!/^[\u0021-\u007e\u00a1-\uffff]+$/.test(text))
    return "must not contain spaces or control characters";
  const url = URL.parse(text);
  // Only the port is wrong: without it this is a URL. The parser accepts port 0, which does not exist either.
  if (url?.port === "0" || (!url && URL.canParse(withoutPort(text))))
    return "must have a port from 1 to 65535";
  if (!url) return "must be an absolute http or https URL";
  if (url.protocol !== "http:" && url.protocol !== "https:") return "must be an http or https URL";
  // For http:///hook, which lacks a host, the parser reads a host called hook.
  if (!/^https?:\/\/[^/?#\\]/i.test(text))
    return "must begin with http:// or https:// and the name of a host";
  // Checked in the text: for http://a\b@c/ this parser finds the host a, others find c.
  if (/^[^/]*\/\/[^/?#]*@/.test(text))
    return "must not contain user info; use webhook_headers to authenticate";
  // A dot at the end stands for the root. DNS has no other empty label.
  const host = url.hostname.replace(/\.$/, "");
  const labels = host.split(".");
  if (labels.includes("")) return "has a dot too many in the name of its host";
  // In the form in which DNS is asked, with letters beyond ASCII as Punycode.
  if (host.length > DNS.name || labels.some((label) => label.length > DNS.label))
    return `has a host name longer than DNS allows: at most ${DNS.label} characters between two dots and ${DNS.name} in all`;
  return null;
}

/** RFC 1035, 2.3.4: 255 octets, two of which are the length octets of the first label and of the root. */
const DNS = { label: 63, name: 253 };

/** The URL without its port, or unchanged if it has none. */
function withoutPort(text: string): string {
  return text.replace(/^(https?:\/\/[^/?#\\]*):[^/?#\\:@\]]+(?=[/?#\\]|$)/i, "$1");
}

function emailOf(fields: RestJobCreate, findings: Finding[]): EmailTarget | undefined {
  const to = needed(fields, "email_to", "type is email", findings);
  const parsed = to === undefined ? undefined : parseAddress(to);
  if (parsed?.kind === "invalid") findings.push({ field: "email_to", message: parsed.reason });
  const subject = needed(fields, "email_subject", "type is email", findings);
  const body = needed(fields, "email_body", "type is email", findings);
  if (to === undefined || subject === undefined || body === undefined) return undefined;
  if (parsed?.kind === "invalid") return undefined;
  const isHtml = fields.email_is_html ?? false;
  const target: EmailTarget = { kind: "email", to, subject, body, isHtml };
  const tooLarge = oversize(target);
  if (tooLarge) findings.push(tooLarge);
  return target;
}
