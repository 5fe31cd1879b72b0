import type { Finding } from "./findings.ts";
import {
  CONCURRENCY_POLICIES,
  SPEC_DEFAULTS,
  type JobSpec,
  type RetryPolicy,
  type Schedule,
} from "./job.ts";

/** Of a job that a newer release has stored in a form that this one does not know. Conditions know it by its field. */
export const UNREADABLE: Finding = {
  field: "spec",
  message:
    "holds something in a form that this release does not know: put it right, or upgrade Carillon",
};

/**
 * A spec as it was stored in JSON, perhaps by a newer release: during an upgrade, or before a rollback. One that cannot
 * be read is refused, so that its job does not stop the others. Its schedule is kept if that can be read, since a
 * one-time job that is over must stay so, and so are its retries, for the runs of a worker that died. A field that no
 * release has had before is given its default here. What is missing altogether (null) is refused likewise.
 */
export function storedSpec(stored: unknown): JobSpec {
  const spec = fieldsOf(stored);
  if (isReadable(spec)) return stored as JobSpec;
  const { name, schedule, suspend, retry } = spec;
  return {
    name: isText(name) ? name : "",
    schedule: isSchedule(schedule) ? schedule : NO_SCHEDULE,
    target: NO_TARGET,
    suspend: suspend === true,
    startingDeadlineSeconds: null,
    deliveryDeadlineSeconds: SPEC_DEFAULTS.deliveryDeadlineSeconds,
    concurrencyPolicy: SPEC_DEFAULTS.concurrencyPolicy,
    retry: isRetry(retry) ? retry : NO_RETRIES,
    refusal: UNREADABLE,
  };
}

/** What stands for a schedule that cannot be read: it never fires. */
export const NO_SCHEDULE: Schedule = Object.freeze({
  kind: "cron",
  expression: "",
  timeZone: SPEC_DEFAULTS.timeZone,
});

const NO_TARGET: JobSpec["target"] = {
  kind: "webhook",
  url: "",
  payload: SPEC_DEFAULTS.payload,
  headers: {},
  headersFrom: [],
  timeoutSeconds: SPEC_DEFAULTS.timeoutSeconds,
};

const NO_RETRIES: RetryPolicy = Object.freeze({
  maxRetries: SPEC_DEFAULTS.maxRetries,
  minBackoffSeconds: SPEC_DEFAULTS.minBackoffSeconds,
  maxBackoffSeconds: SPEC_DEFAULTS.maxBackoffSeconds,
});

export function isSchedule(stored: unknown): stored is Schedule {
  const { kind, expression, timeZone, at } = fieldsOf(stored);
  if (kind === "cron") return isText(expression) && isText(timeZone);
  return kind === "once" && isNumber(at);
}

/** Each claim of a run asks: nothing is copied. */
function isReadable(spec: Fields): boolean {
  const { name, schedule, target, suspend, concurrencyPolicy } = spec;
  const { startingDeadlineSeconds, deliveryDeadlineSeconds, retry } = spec;
  return (
    isText(name) &&
    isSchedule(schedule) &&
    isTarget(fieldsOf(target)) &&
    isFlag(suspend) &&
    (startingDeadlineSeconds === null || isNumber(startingDeadlineSeconds)) &&
    isNumber(deliveryDeadlineSeconds) &&
    CONCURRENCY_POLICIES.some((policy) => policy === concurrencyPolicy) &&
    isRetry(retry)
  );
}

function isRetry(retry: unknown): retry is RetryPolicy {
  const { maxRetries, minBackoffSeconds, maxBackoffSeconds } = fieldsOf(retry);
  return isNumber(maxRetries) && isNumber(minBackoffSeconds) && isNumber(maxBackoffSeconds);
}

function isTarget(target: Fields): boolean {
  if (target["kind"] === "email") {
    const { to, subject, body, isHtml } = target;
    return isText(to) && isText(subject) && isText(body) && isFlag(isHtml);
  }
  const { kind, url, payload, headers, headersFrom, timeoutSeconds } = target;
  return (
    kind === "webhook" &&
    isText(url) &&
    isText(payload) &&
    Object.values(fieldsOf(headers)).every(isText) &&
    Array.isArray(headersFrom) &&
    isNumber(timeoutSeconds)
  );
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number";
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
