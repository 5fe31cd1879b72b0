import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import { DependencyRefusal } from "../domain/ports/dependency-refusal.ts";

/** The part of Kubernetes' `Status` that is read here. */
export interface ApiStatus {
  kind: "Status";
  message?: string;
  reason?: string;
  code?: number;
  details?: {
    causes?: { reason?: string; message?: string; field?: string }[];
  };
}

/** The API server answered, and the answer is no. Outages are DependencyUnavailable instead. */
export class ApiError extends DependencyRefusal {
  override name = "ApiError";
  readonly code: number;
  /** `NotFound`, `AlreadyExists`, `Conflict`, `Invalid`, `Expired`, …; empty when the body had none. */
  readonly reason: string;
  readonly status: ApiStatus | undefined;
  constructor(code: number, status: ApiStatus | undefined, what: string, missing?: string) {
    // A 404 that gets as far as a log or an answer says that the kind is not served: callers that ask for one resource
    // handle its 404 themselves.
    const barred = missing !== undefined || code === 401 || code === 403 || code === 404;
    const cause = missing === undefined ? [] : [`${missing} is not installed`];
    const said = [...cause, status?.message ?? status?.reason ?? ""].filter((text) => text !== "");
    const message = `${what}: ${code} ${said.join(": ")}`.trimEnd();
    super("kubernetes", { barred, missing, message });
    this.code = code;
    this.reason = status?.reason ?? "";
    this.status = status;
  }
}

/** The answer has more bytes than the caller allows (`ApiCall.mostBytes`). */
export class AnswerTooLarge extends Error {
  override name = "AnswerTooLarge";
}

/** The body of an error answer; undefined when a proxy in between wrote something else. */
export function parseStatus(body: string): ApiStatus | undefined {
  try {
    const parsed = JSON.parse(body) as ApiStatus;
    return parsed.kind === "Status" ? parsed : undefined;
  } catch {
    return undefined;
  }
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 404;
}

/** For the lookups of a delivery: a refusal, of our own credentials for instance, says nothing about the job. */
export function throwAsUnavailable(error: unknown): never {
  throw error instanceof ApiError
    ? new DependencyUnavailable("kubernetes", { cause: error })
    : error;
}

/** A policy of the cluster refused it, which may be with any 4xx and any reason. */
export function isByAdmission({ message }: ApiError): boolean {
  return /admission webhook|ValidatingAdmissionPolicy|exceeded quota/.test(message);
}

/** 409 `Conflict`: the resourceVersion or the uid of the request is not the stored one. */
export function isConflict(error: unknown): error is ApiError {
  if (!(error instanceof ApiError) || isByAdmission(error)) return false;
  return error.code === 409 && error.reason !== "AlreadyExists";
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.reason === "AlreadyExists" && !isByAdmission(error);
}

/** 410: the resourceVersion or the continue token has been compacted away. */
export function isExpired(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 410;
}

/**
 * 500 with the words of etcd or of its client: a change would make the resource larger than etcd stores. Another try
 * would end the same way.
 */
export function isTooLarge(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.code === 500 && /request is too large|message larger than max/.test(error.message);
}
