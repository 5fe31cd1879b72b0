import { Type, type TSchema } from "typebox";
import * as field from "./fields.ts";

function optional<T extends TSchema>(schema: T) {
  return Type.Optional(field.nullable(schema));
}

/**
 * Moves the default into the description. Generated clients send a `default`: also for a job of the other kind, which
 * refuses the field, and in a patch, where it would reset a field that should stay.
 */
function defaultInWords<T extends TSchema>(schema: T) {
  const { default: value, description, ...rest } = { ...schema } as Record<string, unknown>;
  return Type.Unsafe<Type.Static<T>>({
    ...rest,
    description: `${String(description)} Default: \`${String(value)}\`.`,
  });
}

/** Fields that only jobs of one `type` or `schedule_type` have; see `KINDS`. */
const OF_ONE_KIND = {
  cron_expression: optional(field.cronExpression),
  run_at: optional(field.runAt),
  timezone: optional(defaultInWords(field.timeZone)),
  webhook_url: optional(field.webhookUrl),
  webhook_payload: optional(field.webhookPayload),
  webhook_headers: optional(field.webhookHeaders),
  timeout_seconds: optional(defaultInWords(field.timeoutSeconds)),
  email_to: optional(field.address),
  email_subject: optional(field.subject),
  email_body: optional(field.emailBody),
  email_is_html: optional(defaultInWords(field.isHtml)),
};

interface KindFields {
  /** Required; all of them are texts. */
  needs: readonly string[];
  /** Optional. */
  takes: readonly string[];
}

/** The fields of `OF_ONE_KIND` by kind. */
export const KINDS: Record<"type" | "schedule_type", Readonly<Record<string, KindFields>>> = {
  type: {
    webhook: {
      needs: ["webhook_url"],
      takes: ["webhook_payload", "webhook_headers", "timeout_seconds"],
    },
    email: { needs: ["email_to", "email_subject", "email_body"], takes: ["email_is_html"] },
  },
  schedule_type: {
    cron: { needs: ["cron_expression"], takes: ["timezone"] },
    one_time: { needs: ["run_at"], takes: [] },
  },
};

/** As JSON Schema: a job is of one of these kinds, and has no field of another. */
function ofOneKind(by: keyof typeof KINDS): object {
  const kinds = Object.entries(KINDS[by]);
  return {
    oneOf: kinds.map(([is, { needs }]) => ({
      title: is,
      required: [by, ...needs],
      properties: Object.fromEntries([
        [by, { const: is }],
        ...needs.map((need) => [need, { type: "string" }]),
        ...kinds
          .filter(([other]) => other !== is)
          .flatMap(([, other]) => [...other.needs, ...other.takes])
          .map((excluded) => [excluded, { type: "null" }]),
      ]),
    })),
  };
}

/** Body of `POST /jobs`. A field that is null counts as not given. */
export const jobCreate = Type.Object(
  {
    name: field.jobName,
    type: field.jobType,
    schedule_type: field.scheduleType,
    ...OF_ONE_KIND,
    max_retries: optional(field.maxRetries),
    min_backoff_seconds: optional(field.minBackoffSeconds),
    max_backoff_seconds: optional(field.maxBackoffSeconds),
    starting_deadline_seconds: optional(field.startingDeadlineSeconds),
    delivery_deadline_seconds: optional(field.deliveryDeadlineSeconds),
    concurrency_policy: optional(field.concurrencyPolicy),
  },
  {
    additionalProperties: false,
    description:
      "`cron_expression` is required when `schedule_type` is `cron`, `run_at` when it is `one_time`; `webhook_url` when `type` is `webhook`; `email_to`, `email_subject` and `email_body` when it is `email`. Fields of the other type or schedule type are refused.",
    "x-documented": {
      allOf: [ofOneKind("type"), ofOneKind("schedule_type")],
    },
    examples: [
      {
        name: "Nightly report",
        type: "webhook",
        schedule_type: "cron",
        cron_expression: "0 3 * * *",
        timezone: "Europe/Paris",
        webhook_url: "https://example.com/hooks/report",
        webhook_payload: { report: "daily" },
      },
    ],
  },
);

const PAUSING = "POST /jobs/{id}/pause pauses a job, POST /jobs/{id}/resume resumes it";

/** Body of `PATCH /jobs/{id}`: what is absent stays, null resets an optional field. */
export const jobPatch = Type.Object(
  {
    name: Type.Optional(field.jobName),
    type: Type.Optional(field.jobType),
    schedule_type: Type.Optional(field.scheduleType),
    ...OF_ONE_KIND,
    max_retries: optional(defaultInWords(field.maxRetries)),
    min_backoff_seconds: optional(defaultInWords(field.minBackoffSeconds)),
    max_backoff_seconds: optional(defaultInWords(field.maxBackoffSeconds)),
    starting_deadline_seconds: optional(field.startingDeadlineSeconds),
    delivery_deadline_seconds: optional(defaultInWords(field.deliveryDeadlineSeconds)),
    concurrency_policy: optional(defaultInWords(field.concurrencyPolicy)),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    "x-elsewhere": Object.fromEntries(
      ["status", "state", "paused", "enabled", "active", "suspend", "suspended"].map((name) => [
        name,
        PAUSING,
      ]),
    ),
    description:
      "Absent fields stay as they are; `null` resets an optional field to its default; `webhook_payload` and `webhook_headers` are replaced as a whole. Changing `type` or `schedule_type` drops the fields of the previous one. The resulting job is validated as a whole.",
    examples: [{ cron_expression: "30 4 * * 1-5", max_retries: 3 }],
  },
);

export type RestJobCreate = Type.Static<typeof jobCreate>;
export type RestJobPatch = Type.Static<typeof jobPatch>;
