import { Type, type TSchema } from "typebox";
import { MAX_ADDRESS_OCTETS } from "../address.ts";
import { CRON_MACROS, MAX_CRON_LENGTH } from "../cron/grammar.ts";
import { MAX_ZONE_LENGTH } from "../cron/zone.ts";
import { CONCURRENCY_POLICIES, SPEC_DEFAULTS } from "../job.ts";

/**
 * Field schemas that the REST API and the ScheduledJob resource share: one limit, one pattern and one
 * description for each field, whichever way a job comes in. Plain JSON Schema, no I/O.
 *
 * `x-rule` says in words what a pattern demands; validators put it into their message. `x-documented` has
 * keywords for the OpenAPI document alone, for rules that code checks, with better messages than a validator
 * has, and that a schema can express for tools at least in part. `x-elsewhere` says of unknown fields, by name, what
 * does what they would do.
 */

/** Keywords that JSON Schema does not have. */
export const OWN_KEYWORDS = ["x-rule", "x-documented", "x-elsewhere"] as const;

const KIB = 1_024;
const MIB = 1_024 * KIB;

/** Sizes are characters unless the name says bytes. */
export const LIMITS = {
  address: MAX_ADDRESS_OCTETS,
  name: 255,
  subject: 998,
  url: 2_048,
  cron: MAX_CRON_LENGTH,
  timeZone: MAX_ZONE_LENGTH,
  runAt: 64,
  jobEmailBodyBytes: 256 * KIB,
  payloadBytes: 256 * KIB,
  sendBodyBytes: 5 * MIB,
  /** All attachments of one message together, as base64 text. */
  attachmentsBytes: 10 * MIB,
  attachments: 100,
  attachmentName: 255,
  recipients: 50,
  headers: 32,
  headerName: 128,
  headerValue: 998,
  nesting: 64,
  errorMessage: 1_000,
  maxRetries: 10,
  backoffSeconds: 86_400,
  timeoutSeconds: 300,
  startingDeadlineSeconds: 31_536_000,
  deliveryDeadlineSeconds: 604_800,
  idempotencyKey: 256,
  pageSize: 1_000,
  offset: Number.MAX_SAFE_INTEGER,
} as const;

/** C0 controls, DEL and line separators: what could end a header line or a log line. */
const CONTROLS = "\\u0000-\\u001f\\u007f\\u0085\\u2028\\u2029";
/** Listed one by one: in the API server's expressions `\\s` means ASCII only. */
export const SPACES = " \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000\\ufeff";
const ONE_LINE = `^[^${CONTROLS}]*$`;
const ONE_LINE_RULE = "must be one line without control characters";
/**
 * One line with at least one visible character, because pages show it as a title and a link. Each character can match
 * only one part of the expression: a validator tries it on texts of any length, and backtracking would take hours.
 */
const VISIBLE_LINE = `^[${SPACES}]*[^${CONTROLS}${SPACES}][^${CONTROLS}]*$`;

/** A string of a fixed set; CRDs and OpenAPI both want `enum`, not a union of constants. */
export function oneOf<const T extends readonly string[]>(
  values: T,
  options: Record<string, unknown> = {},
) {
  return Type.Unsafe<T[number]>({ type: "string", enum: [...values], ...options });
}

/** The same schema, or null. */
export function nullable<T extends TSchema>(schema: T) {
  const plain = { ...schema } as Record<string, unknown>;
  return Type.Unsafe<Type.Static<T> | null>({
    ...plain,
    type: [plain["type"], "null"],
    ...(Array.isArray(plain["enum"]) ? { enum: [...(plain["enum"] as unknown[]), null] } : {}),
  });
}

export const address = Type.String({
  minLength: 1,
  maxLength: LIMITS.address,
  description:
    "One plain address (addr-spec of RFC 5322): no display name, quoted local part, comment, group or list.",
  "x-documented": { format: "email" },
  examples: ["ada@example.com"],
});

export const subject = Type.String({
  minLength: 1,
  maxLength: LIMITS.subject,
  pattern: ONE_LINE,
  "x-rule": ONE_LINE_RULE,
  description: "Subject line.",
  examples: ["Welcome"],
});

export const isHtml = Type.Boolean({
  description: "When true, the body is sent as HTML.",
  default: false,
});

export const jobName = Type.String({
  minLength: 1,
  maxLength: LIMITS.name,
  pattern: VISIBLE_LINE,
  "x-rule": "must be one line without control characters, and more than spaces",
  description: "Friendly name.",
  examples: ["Nightly report"],
});

export const jobType = oneOf(["webhook", "email"], {
  description: "What a run does: call a webhook URL or send an email.",
});

export const scheduleType = oneOf(["cron", "one_time"], {
  description: "Whether the job recurs on a cron schedule or runs once.",
});

export const cronExpression = Type.String({
  minLength: 1,
  maxLength: LIMITS.cron,
  description: `Standard cron expression of five fields (names allowed), or one of ${CRON_MACROS.join(", ")}.`,
  examples: ["0 3 * * *"],
});

export const timeZone = Type.String({
  minLength: 1,
  maxLength: LIMITS.timeZone,
  description: "IANA time zone in which the cron expression is evaluated.",
  default: SPEC_DEFAULTS.timeZone,
  examples: ["Europe/Paris"],
});

export const runAt = Type.String({
  minLength: 1,
  maxLength: LIMITS.runAt,
  description: "RFC 3339 timestamp with offset, in the future, at most 10 years ahead.",
  "x-documented": { format: "date-time" },
  examples: ["2030-01-31T09:00:00Z"],
});

export const webhookUrl = Type.String({
  minLength: 1,
  maxLength: LIMITS.url,
  description: "http or https URL that is called with POST, without user info.",
  "x-documented": { format: "uri", pattern: "^[hH][tT][tT][pP][sS]?://[^/?#\\\\]" },
  examples: ["https://example.com/hooks/report"],
});

export const webhookPayload = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  description:
    "JSON object sent as the body of the webhook, at most 256 KiB. Send numbers that a JSON round trip would change as strings.",
  // The default of JSON Schema, said aloud: without it generated clients expect an object without members.
  "x-documented": { additionalProperties: true },
  examples: [{ report: "daily" }],
});

/** A character of a token (RFC 9110, 5.6.2). */
export const HEADER_NAME_CHARACTER = "[!#$%&'*+.^_`|~0-9A-Za-z-]";
export const HEADER_NAME = `^${HEADER_NAME_CHARACTER}+$`;
/** Visible ASCII with spaces and tabs inside: every HTTP implementation reads it alike. */
export const HEADER_VALUE = "^([!-~]([\\t -~]*[!-~])?)?$";

export const webhookHeaders = Type.Unsafe<Record<string, string>>({
  type: "object",
  additionalProperties: {
    type: "string",
    maxLength: LIMITS.headerValue,
    "x-documented": { pattern: HEADER_VALUE },
  },
  maxProperties: LIMITS.headers,
  "x-documented": {
    propertyNames: { pattern: HEADER_NAME, maxLength: LIMITS.headerName },
  },
  description:
    "Additional request headers. Those that frame, identify or sign the call are refused: Host, Connection, Content-Length, Content-Type, Content-Encoding, Transfer-Encoding, Keep-Alive, TE, Trailer, Upgrade, Expect, Date, Via, HTTP2-Settings, Accept-Encoding, User-Agent, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, Forwarded, webhook-*, Carillon-*, Proxy-*, Sec-*.",
  examples: [{ Authorization: "Bearer <TOKEN>" }],
});

export const emailBody = Type.String({
  minLength: 1,
  maxLength: LIMITS.jobEmailBodyBytes,
  pattern: "^[^\\u0000]*$",
  "x-rule": "must not contain NUL",
  description: "Plain text or HTML, at most 256 KiB.",
  examples: ["It is nine o'clock."],
});

export const timeoutSeconds = Type.Integer({
  minimum: 1,
  maximum: LIMITS.timeoutSeconds,
  description: "Seconds that one webhook call may take in total.",
  default: SPEC_DEFAULTS.timeoutSeconds,
});

export const maxRetries = Type.Integer({
  minimum: 0,
  maximum: LIMITS.maxRetries,
  description:
    "Maximum number of retries. 0: at most one delivery per scheduled time. More: at least one delivery, unless every attempt fails.",
  default: SPEC_DEFAULTS.maxRetries,
});

export const minBackoffSeconds = Type.Integer({
  minimum: 1,
  maximum: LIMITS.backoffSeconds,
  description:
    "Minimum seconds before each retry. The pause is random; its upper bound starts at twice this value and doubles with each retry.",
  default: SPEC_DEFAULTS.minBackoffSeconds,
});

export const maxBackoffSeconds = Type.Integer({
  minimum: 1,
  maximum: LIMITS.backoffSeconds,
  description: "Maximum seconds before each retry; must not be less than the minimum.",
  default: SPEC_DEFAULTS.maxBackoffSeconds,
});

export const startingDeadlineSeconds = Type.Integer({
  minimum: 1,
  maximum: LIMITS.startingDeadlineSeconds,
  description: "How many seconds late a missed scheduled time may still run. Not set: no limit.",
});

export const deliveryDeadlineSeconds = Type.Integer({
  minimum: 1,
  maximum: LIMITS.deliveryDeadlineSeconds,
  description: "Seconds that a run may wait for an open circuit before it fails.",
  default: SPEC_DEFAULTS.deliveryDeadlineSeconds,
});

export const concurrencyPolicy = oneOf(CONCURRENCY_POLICIES, {
  description: "What happens when a run is due while an older one is unfinished.",
  default: SPEC_DEFAULTS.concurrencyPolicy,
});
