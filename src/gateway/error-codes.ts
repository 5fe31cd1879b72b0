/**
 * Every code of an error answer, with its status and its meaning. Codes are stable: programs compare
 * them, people read `error`. The table in docs/errors.md is this one.
 */
export const ERROR_CODES = {
  malformed_request: {
    status: 400,
    meaning: "The request is not valid HTTP, or its target (path and query) cannot be parsed.",
  },
  invalid_json: {
    status: 400,
    meaning:
      "The body is not one valid JSON object in UTF-8, or has a duplicate key, NUL or a lone surrogate in a string, or more than 64 levels of nesting.",
  },
  invalid_request: {
    status: 400,
    meaning:
      "A field or query parameter is missing, unknown or invalid, or a policy or quota of the cluster refuses the job; see `details`.",
  },
  invalid_otp: {
    status: 400,
    meaning:
      "The code is wrong, expired, already used or burnt by wrong tries, or its address has had ten wrong tries within an hour. The response does not say which.",
  },
  unauthorized: {
    status: 401,
    meaning: "The `X-API-Key` header is missing or is not a valid key.",
  },
  signed_out: { status: 401, meaning: "Dashboard: there is no session, or it has ended." },
  sign_in_failed: {
    status: 401,
    meaning: "Dashboard: no user has this address and password.",
  },
  forbidden: { status: 403, meaning: "Dashboard: the user's role does not allow it." },
  cross_origin: {
    status: 403,
    meaning:
      "Dashboard: the request comes from another origin or states none, or uses plain http from another machine.",
  },
  not_found: {
    status: 404,
    meaning:
      "There is no such route, or the account has no such job; dashboard: or no such key, user, invitation or account.",
  },
  method_not_allowed: {
    status: 405,
    meaning: "The route exists, but not with this method; `Allow` lists its methods.",
  },
  request_timeout: { status: 408, meaning: "The request did not arrive in time." },
  conflict: {
    status: 409,
    meaning:
      "Others changed the job at the same time, several times in a row: try again. On creation: an earlier request with this `Idempotency-Key` created a different job.",
  },
  job_owned: {
    status: 409,
    meaning:
      "Another tool, such as Argo CD or Helm, manages the job: change it there. `error` names the tool.",
  },
  last_owner: {
    status: 409,
    meaning:
      "Dashboard: the account would be left without an owner. Make another user an owner first.",
  },
  last_administrator: {
    status: 409,
    meaning:
      "Dashboard: the installation would be left without an administrator. Create another one first (`carillon admin user create --admin`).",
  },
  namespace_in_use: {
    status: 409,
    meaning:
      "Dashboard: the account's present namespace has jobs, which would belong to no account. Delete or move them first.",
  },
  idempotency_mismatch: {
    status: 409,
    meaning: "This `Idempotency-Key` was used with a different body before: use another key.",
  },
  idempotency_in_flight: {
    status: 409,
    meaning: "A request with this `Idempotency-Key` is still being processed: try again shortly.",
  },
  outcome_unknown: {
    status: 409,
    meaning:
      "It is unknown whether an earlier request with this `Idempotency-Key` sent its mail, or to which recipients. To send it, possibly a second time, use another key.",
  },
  payload_too_large: { status: 413, meaning: "The body is larger than the endpoint accepts." },
  unsupported_media_type: {
    status: 415,
    meaning:
      "The body is not `application/json` in UTF-8, or has a `Content-Encoding`, or a `Transfer-Encoding` other than `chunked`.",
  },
  expectation_failed: {
    status: 417,
    meaning: "The `Expect` header asks for something that is not supported.",
  },
  smtp_not_configured: {
    status: 422,
    meaning:
      "The account has no SMTP settings yet: enter them in the dashboard or with `carillon admin smtp set`.",
  },
  rate_limited: {
    status: 429,
    meaning:
      "The API key is over its rate, or too many requests are in progress: large bodies, mails to one SMTP server, lists, or requests on one connection. `Retry-After` says how many seconds to wait.",
  },
  otp_rate_limited: {
    status: 429,
    meaning:
      "Five codes were, or may have been, mailed to this address within ten minutes. `Retry-After` says how many seconds to wait.",
  },
  sign_in_delayed: {
    status: 429,
    meaning:
      "Dashboard: too many sign-ins from this client failed or were begun at the OpenID provider, or too many passwords are being checked at once; see `Retry-After`.",
  },
  headers_too_large: { status: 431, meaning: "The target and headers exceed 16 KiB." },
  smtp_failed: {
    status: 500,
    meaning: "The SMTP server could not be reached or refused the mail; `error` says why.",
  },
  internal: {
    status: 500,
    meaning:
      "An unexpected error in Carillon; its log has the details under the request's `X-Request-Id`.",
  },
  dependency_unavailable: {
    status: 503,
    meaning:
      "A dependency (PostgreSQL, the Kubernetes API, the OpenID provider) does not answer or denies access, or the scheduler has not seen the job yet, or the account is moving; see `Retry-After`.",
  },
  sent_not_logged: {
    status: 503,
    meaning:
      "The SMTP server accepted the mail, but it could not be logged. Repeating the request sends the mail twice.",
  },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;
