import type { TSchema } from "typebox";
import { OTP_MINUTES } from "../../domain/mail.ts";
import { jobCreate, jobPatch } from "../../domain/schema/rest-job.ts";
import type { ErrorCode } from "../error-codes.ts";
import { emptyQuery, healthAnswer, messageAnswer, readyAnswer } from "./answers.ts";
import * as jobs from "./jobs.ts";
import * as mail from "./mail.ts";

/**
 * Every route of the API: what it takes, what it answers. The router, the validators and the OpenAPI
 * document are made from this table, so that none can say something else than the others.
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
  /** Answers a request again as the first with its `Idempotency-Key`. */
  idempotent?: boolean;
  /** What an `Idempotency-Key` does here; undefined: it is not looked at. */
  idempotencyKey?: string;
  success: { status: number; description: string; schema: TSchema };
  /** An answer of the route's own that is no error of the API's shape. */
  alternative?: { status: number; description: string; schema: TSchema };
  /** Answers besides the success and the ones that every route of its sort may give. */
  errors: readonly ErrorCode[];
}

const API = { authenticated: true, query: emptyQuery } as const;
const OPEN = { authenticated: false, query: emptyQuery, tag: "Service" } as const;
export const IDEMPOTENT = {
  idempotent: true,
  idempotencyKey:
    "Makes a retry safe for 24 hours: the same key and body are answered with the first success.",
} as const;
export const ONE_RUN_A_KEY = {
  idempotencyKey:
    "Makes a retry safe for 7 days: the job gets one run for each key, and every request is answered anew.",
} as const;

export const ENDPOINTS = {
  sendEmail: {
    ...API,
    method: "POST",
    path: "/send",
    tag: "Email",
    summary: "Send one email",
    description:
      "Sends through the account's SMTP server and logs the send. Answers when the server has accepted or refused the message.",
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
    description: `Generates a 6-digit code that is valid for ${OTP_MINUTES} minutes and mails it. An earlier code for the address no longer verifies, even if this mail fails. An address takes five codes within 10 minutes, those whose mail failed included.`,
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
      "A code verifies once. Five wrong tries burn it. After ten wrong tries within an hour no code for that address verifies, not even a new one, until the hour has passed.",
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
      "A one-time job that has been over for some time, 90 days where the installation does not say otherwise, is deleted. Its executions stay as long as others.",
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
      "A run that waits for a retry ends with any change, and a one-time job has then failed: a new `run_at` runs it again.",
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
      "Cancels its unstarted runs before it answers. The execution history stays available.",
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
      "Cron times that passed meanwhile do not run; a one-time job whose time passed runs at once. Also lifts the halt that an answer 410 Gone put on a webhook.",
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
      "Queues one run besides the schedule, also while the job is paused or an answer 410 Gone halted it; it stays so.",
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
      "Newest first, of every job that had this id; also after the job was deleted. 404 only if neither the job nor any trace of it exists.",
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
    success: { status: 200, description: "It is.", schema: healthAnswer },
    errors: [],
  },
  readiness: {
    ...OPEN,
    method: "GET",
    path: "/readyz",
    summary: "Whether the process can serve",
    description:
      "503 until everything it depends on has answered once; from then on 200, with a body that says what is down.",
    success: { status: 200, description: "It has been ready.", schema: readyAnswer },
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

/** Codes that a route of this sort may answer besides its own. */
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
