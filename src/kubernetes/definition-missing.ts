import { ApiError } from "./api-error.ts";

const DEFINITION = "the ScheduledJob definition (CRD)";

/**
 * The error for a collection that is not found: the kind is not served. Of a namespace that is gone the list is empty,
 * and a create there gets a 404 whose Status names the namespace.
 */
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
