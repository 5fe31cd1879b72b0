import { Type, type Static } from "typebox";
import { JOB_STATUSES } from "../../domain/job.ts";
import { MISSED_REASONS } from "../../domain/run.ts";
import * as field from "../../domain/schema/fields.ts";
import { LIMITS, nullable } from "../../domain/schema/fields.ts";
import { NO_NUL, paging, timestamp } from "./answers.ts";

const jobStatus = field.oneOf(JOB_STATUSES, {
  description:
    "`completed`: a one-time job whose run succeeded; `failed`: a one-time job whose run failed for good or that missed its time; `invalid`: a job that cannot be scheduled as it is.",
});

const SUMMARY = {
  id: Type.String({ description: "Job identifier." }),
  name: Type.String(),
  type: field.jobType,
  schedule_type: field.scheduleType,
  cron_expression: nullable(Type.String({ description: "Null for a one-time job." })),
  status: jobStatus,
  created_at: timestamp("When the job was created."),
};

const SUMMARY_EXAMPLE = {
  id: "job-0199c1d2-7f3a-7c55-9f0e-2b6d0c5a1e11",
  name: "Nightly report",
  type: "webhook",
  schedule_type: "cron",
  cron_expression: "0 3 * * *",
  status: "active",
  created_at: "2026-11-21T12:00:00.000Z",
};

const runAt = nullable(
  Type.String({ format: "date-time", description: "When a one-time job runs; null for cron." }),
);

export const jobSummary = Type.Object(SUMMARY, { examples: [SUMMARY_EXAMPLE] });

export const jobCreated = Type.Object(
  { ...SUMMARY, run_at: runAt },
  { examples: [{ ...SUMMARY_EXAMPLE, run_at: null }] },
);

export const job = Type.Object(
  {
    ...SUMMARY,
    run_at: runAt,
    timezone: nullable(Type.String({ description: "Time zone of the cron expression." })),
    webhook_url: nullable(Type.String()),
    webhook_payload: nullable(
      Type.Unsafe<Record<string, unknown>>({
        type: "object",
        additionalProperties: true,
        description: "The payload as it was given; `{}` if none was.",
      }),
    ),
    webhook_headers: nullable(
      Type.Unsafe<Record<string, string>>({
        type: "object",
        additionalProperties: { type: "string" },
      }),
    ),
    timeout_seconds: nullable(Type.Integer()),
    email_to: nullable(Type.String()),
    email_subject: nullable(Type.String()),
    email_body: nullable(Type.String()),
    email_is_html: nullable(Type.Boolean()),
    max_retries: Type.Integer(),
    min_backoff_seconds: Type.Integer(),
    max_backoff_seconds: Type.Integer(),
    starting_deadline_seconds: nullable(Type.Integer()),
    delivery_deadline_seconds: Type.Integer(),
    concurrency_policy: field.concurrencyPolicy,
    next_run_at: nullable(
      Type.String({ format: "date-time", description: "Null if no further run is due." }),
    ),
    last_run_at: nullable(
      Type.String({ format: "date-time", description: "When the last attempt began." }),
    ),
    last_status: nullable(field.oneOf(["success", "failed"])),
    circuit: field.oneOf(["closed", "open", "half_open"], {
      description:
        "State of the circuit breaker of the job's destination. While it is open, runs wait and the destination is not called.",
    }),
    halted: Type.Boolean({
      description:
        "True after the receiver answered 410 Gone, until the job is resumed or changed. `status` is then `paused`; a one-time job that is over keeps its `completed` or `failed`, and one whose scheduled run got the 410 is `failed`.",
    }),
  },
  { description: "Every field of a job; inapplicable ones are null." },
);

export const jobsQuery = Type.Object(
  {
    status: Type.Optional(jobStatus),
    type: Type.Optional(field.jobType),
    schedule_type: Type.Optional(field.scheduleType),
    q: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.name,
        description: "Part of the name, case-insensitive.",
        "x-documented": NO_NUL,
      }),
    ),
  },
  { additionalProperties: false },
);
export type JobsQuery = Static<typeof jobsQuery>;

export const executionsQuery = Type.Object(
  {
    ...paging({ default: 20, description: "Maximum results." }),
    status: Type.Optional(
      field.oneOf(["success", "failed"], { description: "Filter by outcome." }),
    ),
    include: Type.Optional(
      field.oneOf(["missed"], {
        description:
          "`missed`: also lists the scheduled times that did not run, one entry per span of times, with the reason. `status` filters only the executions.",
      }),
    ),
  },
  { additionalProperties: false },
);
export type ExecutionsQuery = Static<typeof executionsQuery>;

const EXECUTION = {
  id: Type.String(),
  job_id: Type.String(),
  status: field.oneOf(["success", "failed"]),
  http_status: Type.Integer({
    description:
      "Webhook: the receiver's HTTP status, or 500 without a response. Email: 200 if accepted, otherwise 500.",
  }),
  duration_ms: Type.Integer({ description: "Duration of the attempt in milliseconds." }),
  error_message: nullable(
    Type.String({ description: "Error text if the attempt failed; null on success." }),
  ),
  executed_at: timestamp("When the attempt began."),
  attempt: Type.Integer({ minimum: 1 }),
  trigger: field.oneOf(["schedule", "manual"]),
  scheduled_at: timestamp("The scheduled time that the run belongs to."),
};

const execution = Type.Object(EXECUTION, {
  examples: [
    {
      id: "0199c1d2-9a10-7b21-8a55-60d7b1c0ffee",
      job_id: SUMMARY_EXAMPLE.id,
      status: "success",
      http_status: 200,
      duration_ms: 41,
      error_message: null,
      executed_at: "2026-11-21T03:00:00.012Z",
      attempt: 1,
      trigger: "schedule",
      scheduled_at: "2026-11-21T03:00:00.000Z",
    },
  ],
});

const missed = Type.Object(
  {
    id: Type.String(),
    kind: field.oneOf(["missed"]),
    job_id: Type.String(),
    reason: field.oneOf(MISSED_REASONS),
    count: Type.Integer({ minimum: 1, description: "Scheduled times in the span." }),
    first_scheduled_at: timestamp("First scheduled time of the span."),
    last_scheduled_at: timestamp("Last scheduled time of the span."),
  },
  { description: "Scheduled times that did not run." },
);

export const executionsAnswer = Type.Array(
  Type.Union([
    execution,
    Type.Object(
      { ...EXECUTION, kind: field.oneOf(["execution"]) },
      { description: "An execution in a list with `include=missed`." },
    ),
    missed,
  ]),
  { description: "Newest first." },
);

export const runAccepted = Type.Object(
  { message: Type.String(), job_id: Type.String() },
  { examples: [{ message: "run queued", job_id: SUMMARY_EXAMPLE.id }] },
);

export const jobList = Type.Array(jobSummary);

export const anyObject = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  additionalProperties: true,
});
