/**
 * Every code of an error answer, with its status and its meaning. Codes are stable: programs compare
 * them, people read `error`. The table in docs/errors.md is this one.
 */
export const ERROR_CODES = {
  malformed_request: {
    status: 400,
    meaning: "The request is not valid HTTP, or its target cannot be read.",
  },
  invalid_json: {
    status: 400,
    meaning:
      "The body is not one JSON object in UTF-8: syntax, a key given twice, NUL or a lone surrogate in a string, nesting deeper than 64.",
  },
  invalid_request: {
    status: 400,
    meaning: "A field or query parameter is missing, unknown or not acceptable; see `details`.",
  },
  invalid_otp: {
    status: 400,
    meaning:
      "The code is wrong, expired, burnt or already used, or its address has had ten wrong tries within an hour. One text for all of them.",
  },
  unauthorized: { status: 401, meaning: "The `X-API-Key` header is missing or not a live key." },
  signed_out: { status: 401, meaning: "Dashboard: there is no session, or it has ended." },
  sign_in_failed: {
    status: 401,
    meaning: "Dashboard: the address and password do not belong to a user.",
  },
  forbidden: { status: 403, meaning: "Dashboard: the user's role does not allow it." },
  cross_origin: {
    status: 403,
    meaning: "Dashboard: the request comes from another site, or does not say where it comes from.",
  },
  not_found: {
    status: 404,
    meaning: "There is no such route, or the account has no such job.",
  },
  method_not_allowed: { status: 405, meaning: "The route exists; `Allow` lists its methods." },
  request_timeout: { status: 408, meaning: "The request did not arrive in time." },
  conflict: {
    status: 409,
    meaning:
      "The job was changed by somebody else at the same time, several times over. When creating one: a job that was made with this `Idempotency-Key` before differs.",
  },
  job_owned: {
    status: 409,
    meaning: "A GitOps tool manages the job: change it there. The text names the owner.",
  },
  last_owner: {
    status: 409,
    meaning: "Dashboard: the account would be left without an owner. Make somebody else one first.",
  },
  last_administrator: {
    status: 409,
    meaning:
      "Dashboard: the installation would be left without an administrator. Make another one first.",
  },
  namespace_in_use: {
    status: 409,
    meaning:
      "Dashboard: the namespace that the account is bound to has jobs, which would belong to nobody. Delete or move them first.",
  },
  idempotency_mismatch: {
    status: 409,
    meaning: "The `Idempotency-Key` was used with a different body: use another key for this one.",
  },
  idempotency_in_flight: {
    status: 409,
    meaning: "A request with this `Idempotency-Key` is being worked on: try again shortly.",
  },
  outcome_unknown: {
    status: 409,
    meaning:
      "An earlier request with this `Idempotency-Key` may or may not have sent its mail, or not to all of its recipients. To send it, perhaps again, use another key.",
  },
  payload_too_large: { status: 413, meaning: "The body is larger than the endpoint takes." },
  unsupported_media_type: {
    status: 415,
    meaning:
      "The body is not `application/json` in UTF-8, or has a `Content-Encoding`, or a `Transfer-Encoding` other than `chunked`.",
  },
  expectation_failed: {
    status: 417,
    meaning: "An `Expect` header asks for what is not supported.",
  },
  smtp_not_configured: {
    status: 422,
    meaning:
      "The account has no SMTP settings yet: enter them in the dashboard or with `carillon admin smtp set`.",
  },
  rate_limited: {
    status: 429,
    meaning:
      "The API key is over its rate, or too many requests are being worked on: large ones, mails to one SMTP server, lists, or those of one connection; `Retry-After` says how many seconds to wait.",
  },
  otp_rate_limited: {
    status: 429,
    meaning:
      "Five codes were mailed to this address within ten minutes, or may have been; `Retry-After` says how many seconds to wait.",
  },
  sign_in_delayed: {
    status: 429,
    meaning:
      "Dashboard: too many failed sign-ins from this client, or too many at once; see `Retry-After`.",
  },
  headers_too_large: { status: 431, meaning: "The request's headers are too large." },
  smtp_failed: {
    status: 500,
    meaning: "The SMTP server could not be reached or refused; `error` is its text.",
  },
  internal: {
    status: 500,
    meaning: "A fault of the service; the log has it under the request id.",
  },
  dependency_unavailable: {
    status: 503,
    meaning:
      "Something the service depends on does not answer, or does not let the service in; see `Retry-After`.",
  },
  sent_not_logged: {
    status: 503,
    meaning: "The mail was accepted, but could not be logged. Sending it again sends it twice.",
  },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;
