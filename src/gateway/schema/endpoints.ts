import type { TSchema } from "typebox";
import { REMEMBERED_DAYS } from "../../domain/cursor.ts";
import { OTP_MINUTES } from "../../domain/mail.ts";
import { jobCreate, jobPatch } from "../../domain/schema/rest-job.ts";
import type { ErrorCode } from "../error-codes.ts";
import { emptyQuery, healthAnswer, messageAnswer, readyAnswer } from "./answers.ts";
import * as jobs from "./jobs.ts";
import * as mail from "./mail.ts";

/**
 * Every route of the API: what it takes, what it answers. The router, the validators and the OpenAPI
 * document are made from this table, so that they cannot disagree.
 */
export interface EndpointDefinition {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** As OpenAPI writes it: `/jobs/{id}`. */
  path: string;
  tag: "Email" | "OTP" | "Jobs" | "Service" | "Dashboard";
  summary: string;
  description?: string;
  /** False: no API key, no rate limit. */
  authenticated: boolean;
  query: TSchema;
  body?: TSchema;
  /** Takes larger bodies: attachments. */
  largeBody?: boolean;
  /** Replays the answer to the first request with the same `Idempotency-Key`. */
  idempotent?: boolean;
  /** What an `Idempotency-Key` does here; undefined: it is not looked at. */
  idempotencyKey?: string;
  success: { status: number; description: string; schema: TSchema };
  /** Another answer of the route, which does not have the shape of an error. */
  alternative?: { status: number; description: string; schema: TSchema };
  /** Error codes besides those that every route of its kind may answer: see `errorCodesOf`. */
  errors: readonly ErrorCode[];
}

const API = { authenticated: true, query: emptyQuery } as const;
const OPEN = { authenticated: false, query: emptyQuery, tag: "Service" } as const;
export const IDEMPOTENT = {
  idempotent: true,
  idempotencyKey:
    "Makes retries safe for 24 hours: a request with the same key and body gets the response of the first success.",
} as const;
export const ONE_RUN_A_KEY = {
  idempotencyKey: `Makes retries safe for ${REMEMBERED_DAYS} days: all requests with the same key queue one run. Each gets a response of its own.`,
} as const;

export const ENDPOINTS = {
  sendEmail: {
    ...API,
    method: "POST",
    path: "/send",
    tag: "Email",
    summary: "Send one email",
    description:
      "Sends the email through the account's SMTP server and logs it. Responds when the server has accepted or refused the message.",
    body: mail.sendRequest,
    largeBody: true,
    ...IDEMPOTENT,
    success: { status: 200, description: "Accepted by the SMTP server.", schema: mail.sendAnswer },
    errors: ["smtp_not_configured", "smtp_failed", "sent_not_logged"],
  },
  sendOtp: {
    ...API,
    method: "POST",
    path: "/send/otp",
    tag: "OTP",
    summary: "Send a one-time passcode",
    description: `Generates a 6-digit code that is valid for ${OTP_MINUTES} minutes and mails it. An earlier code for the address no longer verifies, even if this mail fails. An address gets at most five codes within 10 minutes; a code whose mail was certainly not delivered does not count.`,
    body: mail.otpSendRequest,
    ...IDEMPOTENT,
    success: { status: 200, description: "The code was mailed.", schema: mail.otpSendAnswer },
    errors: ["smtp_not_configured", "otp_rate_limited", "smtp_failed"],
  },
  verifyOtp: {
    ...API,
    method: "POST",
    path: "/verify/otp",
    tag: "OTP",
    summary: "Verify a one-time passcode",
    description:
      "A code verifies once. Five wrong tries invalidate it. After ten wrong tries within an hour no code for the address verifies, not even a new one, until the hour has passed.",
    body: mail.otpVerifyRequest,
    success: { status: 200, description: "The code was right.", schema: mail.otpVerifyAnswer },
    errors: ["invalid_otp", "smtp_not_configured"],
  },
  listLogs: {
    ...API,
    method: "GET",
    path: "/logs",
    tag: "Email",
    summary: "List the email log",
    description: "Every send of the account, newest first: emails, passcodes and email jobs.",
    query: mail.logsQuery,
    success: { status: 200, description: "One page of the log.", schema: mail.logsAnswer },
    errors: [],
  },
  createJob: {
    ...API,
    method: "POST",
    path: "/jobs",
    tag: "Jobs",
    summary: "Create a scheduled job",
    description:
      "A finished one-time job is deleted after 90 days, unless the installation sets another period. Its executions are kept as long as those of other jobs.",
    body: jobCreate,
    ...IDEMPOTENT,
    success: { status: 201, description: "The job was created.", schema: jobs.jobCreated },
    errors: ["conflict"],
  },
  listJobs: {
    ...API,
    method: "GET",
    path: "/jobs",
    tag: "Jobs",
    summary: "List all jobs",
    query: jobs.jobsQuery,
    success: {
      status: 200,
      description: "All jobs that match, oldest first.",
      schema: jobs.jobList,
    },
    errors: [],
  },
  getJob: {
    ...API,
    method: "GET",
    path: "/jobs/{id}",
    tag: "Jobs",
    summary: "Get one job",
    success: { status: 200, description: "The whole job.", schema: jobs.job },
    errors: ["not_found"],
  },
  updateJob: {
    ...API,
    method: "PATCH",
    path: "/jobs/{id}",
    tag: "Jobs",
    summary: "Change a job",
    description:
      "Any change ends a run that waits for a retry. A one-time job whose run ends this way has failed; a new `run_at` runs it again.",
    body: jobPatch,
    success: { status: 200, description: "The job as changed.", schema: jobs.job },
    errors: ["not_found", "conflict", "job_owned"],
  },
  deleteJob: {
    ...API,
    method: "DELETE",
    path: "/jobs/{id}",
    tag: "Jobs",
    summary: "Delete a job",
    description:
      "Cancels the job's unstarted runs before it responds. The execution history stays available.",
    success: { status: 200, description: "The job was deleted.", schema: messageAnswer },
    errors: ["not_found", "job_owned"],
  },
  pauseJob: {
    ...API,
    method: "POST",
    path: "/jobs/{id}/pause",
    tag: "Jobs",
    summary: "Pause a job",
    description: "No scheduled run starts while a job is paused. Pausing twice is no error.",
    success: { status: 200, description: "The job as it is now.", schema: jobs.job },
    errors: ["not_found", "conflict", "job_owned"],
  },
  resumeJob: {
    ...API,
    method: "POST",
    path: "/jobs/{id}/resume",
    tag: "Jobs",
    summary: "Resume a job",
    description:
      "Cron times that passed while the job was paused do not run; a one-time job whose time passed runs at once. Also resumes a job that a 410 Gone halted. A job that another tool manages is resumed from such a halt, but not from a pause: the tool would pause it again.",
    success: { status: 200, description: "The job as it is now.", schema: jobs.job },
    errors: ["not_found", "conflict", "job_owned"],
  },
  runJob: {
    ...API,
    method: "POST",
    path: "/jobs/{id}/run",
    tag: "Jobs",
    summary: "Run a job now",
    description:
      "Queues one run in addition to the schedule, which sends what the job says: a body is ignored. A job that is paused, or halted by a 410 Gone, runs too and stays paused or halted.",
    ...ONE_RUN_A_KEY,
    success: { status: 202, description: "The run was queued.", schema: jobs.runAccepted },
    errors: ["not_found"],
  },
  listExecutions: {
    ...API,
    method: "GET",
    path: "/jobs/{id}/executions",
    tag: "Jobs",
    summary: "List the executions of a job",
    description:
      "Newest first, of every job that has had this id, deleted ones included. 404 only if neither the job nor any trace of it exists.",
    query: jobs.executionsQuery,
    success: {
      status: 200,
      description: "Executions, newest first.",
      schema: jobs.executionsAnswer,
    },
    errors: ["not_found"],
  },
  health: {
    ...OPEN,
    method: "GET",
    path: "/healthz",
    summary: "Whether the process is alive",
    success: { status: 200, description: "The process is alive.", schema: healthAnswer },
    errors: [],
  },
  readiness: {
    ...OPEN,
    method: "GET",
    path: "/readyz",
    summary: "Whether the process can serve",
    description:
      "503 until every dependency has answered once; from then on 200, with a body that says which of them are down.",
    success: { status: 200, description: "The process has been ready.", schema: readyAnswer },
    alternative: { status: 503, description: "Not ready yet.", schema: readyAnswer },
    errors: [],
  },
  openApi: {
    ...OPEN,
    method: "GET",
    path: "/openapi.json",
    summary: "This document",
    success: { status: 200, description: "OpenAPI 3.1.", schema: jobs.anyObject },
    errors: [],
  },
} as const satisfies Record<string, EndpointDefinition>;

export type OperationId = keyof typeof ENDPOINTS;

/** Codes that a route may answer: those of its kind, and its own. */
export function errorCodesOf(endpoint: EndpointDefinition): ErrorCode[] {
  const codes = new Set<ErrorCode>(["malformed_request", "invalid_request", "rate_limited"]);
  if (endpoint.authenticated) codes.add("unauthorized").add("dependency_unavailable");
  if (endpoint.body)
    codes.add("invalid_json").add("payload_too_large").add("unsupported_media_type");
  if (endpoint.idempotent)
    codes.add("idempotency_mismatch").add("idempotency_in_flight").add("outcome_unknown");
  for (const code of endpoint.errors) codes.add(code);
  codes.add("request_timeout").add("expectation_failed").add("headers_too_large").add("internal");
  return [...codes];
}
