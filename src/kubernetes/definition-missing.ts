import { ApiError, isNotFound } from "./api-error.ts";

const DEFINITION = "the ScheduledJob definition (CRD)";

/**
 * Whether it is not one resource that is not found, nor the namespace of a create, but the kind, which is not served:
 * only the others have a Status.
 */
export function isKindMissing(error: unknown): error is ApiError {
  return isNotFound(error) && error.status === undefined;
}

/** The error for a kind that is not served. A list gets no other 404: that of a namespace that is gone is empty. */
export function definitionMissing({ code, status }: ApiError, what: string): ApiError {
  return new ApiError(code, status, what, DEFINITION);
}

/**
 * The error for a job with a field that the API server does not know. All that is written is in this release's
 * definition, so an earlier one is installed: a rollback takes it back before the last of the newer gateways has ended.
 * Undefined for any other error.
 */
export function definitionTooOld(error: unknown, what: string): ApiError | undefined {
  if (!(error instanceof ApiError) || error.code !== 400) return undefined;
  if (!/strict decoding error: .*unknown field/s.test(error.message)) return undefined;
  return new ApiError(error.code, error.status, what, `${DEFINITION} of this release`);
}
