import { createHash } from "node:crypto";
import { parseAddress } from "../domain/address.ts";
import { canonicalJson, isDeeper, parseExactJson } from "../domain/exact-json.ts";
import type { Finding } from "../domain/findings.ts";
import type { Instant } from "../domain/instant.ts";
import {
  CONCURRENCY_POLICIES,
  SPEC_DEFAULTS,
  type ConcurrencyPolicy,
  type Job,
  type JobSpec,
  type RetryPolicy,
  type Schedule,
  type SecretHeader,
  type Target,
} from "../domain/job.ts";
import { oversize, withoutBulk } from "../domain/oversize.ts";
import { webhookUrlProblem } from "../domain/rest-job.ts";
import { cronKey, MOST_SCHEDULES, parseFireTime } from "../domain/schedule.ts";
import { LIMITS } from "../domain/schema/fields.ts";
import { createSharedValues } from "../domain/shared-values.ts";
import { UNREADABLE } from "../domain/stored-spec.ts";
import { resourceOwner } from "./resource-owner.ts";

export const GROUP = "carillon.dev";
export const VERSION = "v1";
export const API_VERSION = `${GROUP}/${VERSION}`;
export const KIND = "ScheduledJob";
export const PLURAL = "scheduledjobs";
/** Each new value of this annotation asks for one run at once, whatever the schedule says. */
export const RUN_NOW_ANNOTATION = "carillon.dev/run-now";

export interface ObjectMeta {
  name: string;
  namespace: string;
  uid: string;
  resourceVersion: string;
  generation: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { kind: string; name: string; controller?: boolean }[];
}

interface SecretReference {
  header: string;
  secretKeyRef: { name: string; key: string };
}

/** `spec` of the resource as authors write it and the API server stores it (crds/). */
export interface ScheduledJobSpec {
  displayName?: string;
  schedule?: { cron?: string; timeZone?: string; at?: string };
  webhook?: {
    url?: string;
    payload?: unknown;
    headers?: Record<string, string>;
    headersFrom?: SecretReference[];
    timeoutSeconds?: number;
  };
  email?: { to?: string; subject?: string; body?: string; isHtml?: boolean };
  suspend?: boolean;
  startingDeadlineSeconds?: number;
  deliveryDeadlineSeconds?: number;
  concurrencyPolicy?: ConcurrencyPolicy;
  retry?: { maxRetries?: number; minBackoffSeconds?: number; maxBackoffSeconds?: number };
}

/** `status` of the resource. Null members are left out when it is written. */
export interface ScheduledJobStatus {
  observedGeneration?: number;
  phase?: string;
  type?: string;
  schedule?: string;
  conditions?: {
    type: string;
    status: string;
    reason: string;
    message: string;
    observedGeneration: number;
    lastTransitionTime: string;
  }[];
  lastScheduleTime?: string | null;
  lastSuccessTime?: string | null;
  nextScheduleTime?: string | null;
  lastExecution?: Record<string, string | number> | null;
}

export interface ScheduledJob {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec?: ScheduledJobSpec;
  /** Only the status writer reads it. */
  status?: ScheduledJobStatus;
}

/** The status as it is written, and as it is compared. */
export function withoutNulls(status: ScheduledJobStatus): ScheduledJobStatus {
  return Object.fromEntries(
    Object.entries(status).filter(([, value]) => value !== null && value !== undefined),
  );
}

/** The resource as the domain's job. Never throws: the domain judges what the API server has accepted. */
export function jobFromResource(resource: ScheduledJob, account: string | null): Job {
  const { metadata } = resource;
  return {
    uid: metadata.uid,
    account,
    id: metadata.name,
    generation: metadata.generation,
    // Not resourceVersion: that changes with every status write, with which no edit conflicts.
    version: String(metadata.generation),
    createdAt: Date.parse(metadata.creationTimestamp),
    spec: specFromResource(resource.spec ?? {}, metadata.name),
    owner: resourceOwner(metadata),
    runNow: runNowOf(metadata.annotations?.[RUN_NOW_ANNOTATION]),
  };
}

/**
 * As `jobFromResource`, for callers that keep many jobs in memory: of a refused job without payload and body. The
 * API server accepts 1.5 MB, and the jobs of one namespace must not fill the memory of every process.
 */
export function keptJobFromResource(resource: ScheduledJob, account: string | null): Job {
  const job = jobFromResource(resource, account);
  return job.spec.refusal ? withoutBulk(job) : job;
}

/** What can be used as a key. An annotation may be any text; others are hashed. */
const PLAIN_KEY = /^[\u0020-\u007e]{1,256}$/;

/** Empty asks for nothing: it is what a template makes of a value that is not set, and what is left of a cleared one. */
function runNowOf(annotation: string | undefined): string | null {
  if (annotation === undefined || annotation === "") return null;
  return PLAIN_KEY.test(annotation)
    ? annotation
    : `sha256:${createHash("sha256").update(annotation).digest("hex")}`;
}

export function specFromResource(spec: ScheduledJobSpec, resourceName: string): JobSpec {
  try {
    return readSpec(spec, resourceName);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Only with another CRD than ours, as when a newer release installed its own while this one still runs. The job is
    // refused, so that it does not stop the others.
    return { ...readTiming(spec, resourceName), refusal: UNREADABLE };
  }
}

/**
 * The rest does not matter of a job that is refused. But a one-time job that is over must stay so, and not be armed by a
 * time that looks like another one.
 */
function readTiming({ schedule, suspend }: ScheduledJobSpec, resourceName: string): JobSpec {
  try {
    return readSpec({ schedule, suspend }, resourceName);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return readSpec({}, resourceName);
  }
}

/** Throws a TypeError where a field is not what the CRD says. */
function readSpec(spec: ScheduledJobSpec, resourceName: string): JobSpec {
  const target = targetFrom(spec);
  // Checked here and not by rules of the CRD: CEL has no size for a payload whose members it does not know, and cannot
  // parse a host or an address.
  const refusal =
    tooDeep(spec.webhook?.payload) ?? oversize(target) ?? unreachable(target) ?? noTime(spec);
  return {
    name: text(spec.displayName ?? resourceName),
    schedule: scheduleFrom(spec.schedule ?? {}),
    target,
    suspend: flag(spec.suspend ?? false),
    startingDeadlineSeconds: whole(spec.startingDeadlineSeconds ?? null),
    deliveryDeadlineSeconds: whole(
      spec.deliveryDeadlineSeconds ?? SPEC_DEFAULTS.deliveryDeadlineSeconds,
    ),
    concurrencyPolicy: policy(spec.concurrencyPolicy ?? SPEC_DEFAULTS.concurrencyPolicy),
    retry: retryFrom(spec.retry ?? {}),
    ...(refusal && { refusal }),
  };
}

/** REST counts the body around the payload as the first level. */
function tooDeep(payload: unknown): Finding | undefined {
  if (!isDeeper(payload, LIMITS.nesting - 1)) return undefined;
  return {
    field: "webhook_payload",
    message: `must be nested at most ${LIMITS.nesting - 1} levels deep`,
  };
}

/** A target that REST would refuse too: no run could reach anybody. */
function unreachable(target: Target): Finding | undefined {
  if (target.kind === "webhook") {
    const message = webhookUrlProblem(target.url);
    return message === null ? undefined : { field: "webhook_url", message };
  }
  const parsed = parseAddress(target.to);
  return parsed.kind === "valid" ? undefined : { field: "email_to", message: parsed.reason };
}

/**
 * A time that cannot be read, which only another CRD than ours lets through. Without this finding the domain would
 * blame the cron expression.
 */
function noTime({ schedule }: ScheduledJobSpec): Finding | undefined {
  const at = schedule?.at === undefined ? undefined : parseFireTime(schedule.at);
  return typeof at === "object" ? at : undefined;
}

function scheduleFrom(schedule: NonNullable<ScheduledJobSpec["schedule"]>): Schedule {
  if (schedule.at !== undefined) {
    const at = parseFireTime(schedule.at);
    if (typeof at === "number") return { kind: "once", at };
  }
  // Without a cron expression or a valid time, only with another CRD than ours, the expression is empty. The domain
  // refuses that: the job becomes Invalid instead of stopping the controller.
  const cron: Schedule = {
    kind: "cron",
    expression: text(schedule.cron ?? ""),
    timeZone: text(schedule.timeZone ?? SPEC_DEFAULTS.timeZone),
  };
  const key = cronKey(cron);
  return key === undefined ? cron : sharedSchedules(key, () => Object.freeze(cron));
}

const sharedSchedules = createSharedValues<Schedule>(MOST_SCHEDULES);

function retryFrom(retry: NonNullable<ScheduledJobSpec["retry"]>): RetryPolicy {
  const maxRetries = whole(retry.maxRetries ?? SPEC_DEFAULTS.maxRetries);
  const minBackoffSeconds = whole(retry.minBackoffSeconds ?? SPEC_DEFAULTS.minBackoffSeconds);
  const maxBackoffSeconds = whole(retry.maxBackoffSeconds ?? SPEC_DEFAULTS.maxBackoffSeconds);
  return sharedPolicies(`${maxRetries} ${minBackoffSeconds} ${maxBackoffSeconds}`, () =>
    Object.freeze({ maxRetries, minBackoffSeconds, maxBackoffSeconds }),
  );
}

const sharedPolicies = createSharedValues<RetryPolicy>(256);

function text(value: unknown): string {
  if (typeof value !== "string") throw new TypeError("not a text");
  return value;
}

function flag(value: unknown): boolean {
  if (typeof value !== "boolean") throw new TypeError("neither true nor false");
  return value;
}

function texts(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new TypeError("no names with texts");
  for (const one of Object.values(value)) text(one);
  return value as Readonly<Record<string, string>>;
}

function policy(value: unknown): ConcurrencyPolicy {
  const known = CONCURRENCY_POLICIES.find((one) => one === value);
  if (known === undefined) throw new TypeError("none of the policies");
  return known;
}

/** A number with which times can be computed; a newer release's CRD may allow others, which would fail later. */
function whole<T extends number | null>(value: T): T {
  if (value !== null && !(Number.isSafeInteger(value) && value >= 0 && value <= MOST))
    throw new TypeError("not a whole number, negative, or too large");
  return value;
}

/** Seconds: three hundred years. */
const MOST = 10_000_000_000;

function targetFrom(spec: ScheduledJobSpec): Target {
  if (spec.email)
    return {
      kind: "email",
      to: text(spec.email.to ?? ""),
      subject: text(spec.email.subject ?? ""),
      body: text(spec.email.body ?? ""),
      isHtml: flag(spec.email.isHtml ?? false),
    };
  const webhook = spec.webhook ?? {};
  return {
    kind: "webhook",
    url: text(webhook.url ?? ""),
    payload: webhook.payload === undefined ? SPEC_DEFAULTS.payload : canonicalJson(webhook.payload),
    headers: texts(webhook.headers ?? {}),
    headersFrom: webhook.headersFrom?.map(secretHeader) ?? NO_SECRETS,
    timeoutSeconds: whole(webhook.timeoutSeconds ?? SPEC_DEFAULTS.timeoutSeconds),
  };
}

const NO_SECRETS: readonly SecretHeader[] = Object.freeze([]);

/** `spec` for the API server. `specFromResource` makes the same JobSpec of it again. */
export function specToResource(spec: JobSpec): ScheduledJobSpec {
  const { target } = spec;
  return {
    displayName: spec.name,
    schedule:
      spec.schedule.kind === "cron"
        ? { cron: spec.schedule.expression, timeZone: spec.schedule.timeZone }
        : { at: rfc3339(spec.schedule.at) },
    ...(target.kind === "webhook"
      ? { webhook: webhookToResource(target) }
      : {
          email: {
            to: target.to,
            subject: target.subject,
            body: target.body,
            isHtml: target.isHtml,
          },
        }),
    suspend: spec.suspend,
    ...(spec.startingDeadlineSeconds !== null && {
      startingDeadlineSeconds: spec.startingDeadlineSeconds,
    }),
    deliveryDeadlineSeconds: spec.deliveryDeadlineSeconds,
    concurrencyPolicy: spec.concurrencyPolicy,
    retry: { ...spec.retry },
  };
}

function webhookToResource(
  target: Extract<Target, { kind: "webhook" }>,
): NonNullable<ScheduledJobSpec["webhook"]> {
  return {
    url: target.url,
    payload: parseExactJson(target.payload),
    ...(Object.keys(target.headers).length > 0 && { headers: { ...target.headers } }),
    ...(target.headersFrom.length > 0 && { headersFrom: target.headersFrom.map(secretRef) }),
    timeoutSeconds: target.timeoutSeconds,
  };
}

function secretHeader({ header, secretKeyRef }: SecretReference): SecretHeader {
  return {
    header: text(header),
    secretName: text(secretKeyRef.name),
    secretKey: text(secretKeyRef.key),
  };
}

function secretRef({ header, secretName, secretKey }: SecretHeader): SecretReference {
  return { header, secretKeyRef: { name: secretName, key: secretKey } };
}

/** With milliseconds only when there are any, so that `kubectl get` shows times as an author writes them. */
export function rfc3339(instant: Instant): string {
  return new Date(instant).toISOString().replace(".000Z", "Z");
}
