import { copiedText } from "../domain/copied-text.ts";
import { InvalidInput, type Finding } from "../domain/findings.ts";
import {
  AdministratorsOnly,
  LastAdministrator,
  LastOwner,
  NamespaceInUse,
  PasswordsBusy,
} from "../domain/ports/accounts.ts";
import { ClockUnknown } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { DependencyRefusal } from "../domain/ports/dependency-refusal.ts";
import { JobNotFound, JobOwned, VersionConflict } from "../domain/ports/job-store.ts";
import { ERROR_CODES, type ErrorCode } from "./error-codes.ts";

/** Findings in one answer; more would only be noise. */
export const MAX_DETAILS = 20;

/** Characters. Answers repeat names from the request, which may be as long as a body. */
const MOST_TEXT = 1_000;
const MOST_FIELD = 200;

/** Retry-After when a right or a component is missing: somebody has to act first, and a retry at once is useless. */
const REFUSED_SECONDS = 30;

/** An answer that is not a success. Thrown by handlers; the text is for the caller to read. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly Finding[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    code: ErrorCode,
    message: string,
    more: {
      details?: readonly Finding[];
      retryAfterSeconds?: number;
      headers?: Record<string, string>;
      cause?: unknown;
    } = {},
  ) {
    super(clipped(message, MOST_TEXT), { cause: more.cause });
    this.name = "ApiError";
    this.code = code;
    this.details = more.details?.slice(0, MAX_DETAILS).map(clippedFinding);
    this.headers = {
      ...more.headers,
      ...(more.retryAfterSeconds === undefined
        ? {}
        : { "Retry-After": String(Math.max(1, Math.ceil(more.retryAfterSeconds))) }),
    };
  }

  get status(): number {
    return ERROR_CODES[this.code].status;
  }
}

/**
 * 400. The text names the first finding; `details` has the first `MAX_DETAILS`. `found`: how many there were, if
 * not all are given.
 */
export function invalid(findings: readonly Finding[], found = findings.length): ApiError {
  const [first] = findings;
  const text = first ? describe(clippedFinding(first)) : "the request is invalid";
  const more = found > 1 ? ` (and ${found - 1} more)` : "";
  return new ApiError("invalid_request", text + more, { details: findings });
}

/** 429: this process has too much of something under way to take on more now. */
export function tooMuchAtOnce(message: string): ApiError {
  return new ApiError("rate_limited", message, { retryAfterSeconds: 5 });
}

function describe({ field, message }: Finding): string {
  return field === "" ? message : `${field}: ${message}`;
}

function clippedFinding({ field, message }: Finding): Finding {
  return { field: clipped(field, MOST_FIELD), message: clipped(message, MOST_TEXT) };
}

/** At most `most` UTF-16 units, and never half of a surrogate pair. */
function clipped(text: string, most: number): string {
  if (text.length <= most) return text;
  const kept = text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "");
  return `${copiedText(kept.toWellFormed())}…`;
}

export interface ErrorBody {
  error: string;
  code: ErrorCode;
  details?: readonly Finding[];
}

export interface ErrorAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: ErrorBody;
  /** True for a fault of ours, which is logged in full. */
  unexpected: boolean;
}

/** The one place where errors become statuses. Nothing of an unexpected error reaches the caller. */
export function errorAnswer(error: unknown): ErrorAnswer {
  const known = asApiError(error);
  const api = known ?? new ApiError("internal", "internal error");
  return {
    status: api.status,
    headers: api.headers,
    body: { error: api.message, code: api.code, details: api.details },
    unexpected: known === undefined,
  };
}

function asApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (error instanceof InvalidInput) return invalid(error.findings);
  if (error instanceof JobNotFound) return new ApiError("not_found", "job not found");
  if (error instanceof JobOwned) return jobOwned(error);
  if (error instanceof LastOwner)
    return new ApiError("last_owner", `${error.message}: make somebody else an owner first`);
  if (error instanceof PasswordsBusy)
    return new ApiError("sign_in_delayed", `${error.message}: try again in a moment`, {
      retryAfterSeconds: 1,
    });
  if (error instanceof AdministratorsOnly) return new ApiError("forbidden", error.message);
  if (error instanceof LastAdministrator)
    return new ApiError(
      "last_administrator",
      `${error.message}: make another administrator first (carillon admin user create --admin)`,
    );
  if (error instanceof NamespaceInUse) return new ApiError("namespace_in_use", error.message);
  if (error instanceof VersionConflict)
    return new ApiError("conflict", "the job was changed at the same time; try again");
  if (error instanceof DependencyUnavailable)
    return new ApiError("dependency_unavailable", "a dependency is not available; try again", {
      retryAfterSeconds: error.retryAfterSeconds ?? 1,
      cause: error,
    });
  if (error instanceof DependencyRefusal && error.barred)
    return new ApiError(
      "dependency_unavailable",
      error.missing === undefined
        ? `${error.dependency} does not let the service do this: the log says why, under the request id`
        : `${error.missing} is not installed: the log says where, under the request id`,
      { retryAfterSeconds: REFUSED_SECONDS, cause: error },
    );
  if (error instanceof ClockUnknown)
    return new ApiError("dependency_unavailable", "the database clock is not known yet", {
      retryAfterSeconds: 1,
      cause: error,
    });
  return undefined;
}

export function jobOwned({ owner }: Pick<JobOwned, "owner">): ApiError {
  return new ApiError(
    "job_owned",
    `the job is managed by ${owner.tool} (${owner.name}); change or delete it there`,
  );
}
