import { InvalidInput, type Finding } from "../domain/findings.ts";
import { ApiError, isByAdmission, isTooLarge } from "./api-error.ts";
import { restField } from "./resource-fields.ts";

const TOO_LARGE =
  "the job would be larger than the cluster can store: shorten it, in the payload above all";

/**
 * What the API server found wrong with a job: schema, CEL rules (422 with causes), or an admission
 * policy or webhook of the cluster (any 4xx, with its own words), or etcd's limit. Undefined: something else.
 */
export function invalidInput(error: unknown): InvalidInput | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const causes = error.status?.details?.causes ?? [];
  const message = error.status?.message ?? error.message;
  if (error.code === 422) {
    const findings = causes.map((cause): Finding => ({
      field: restField(cause.field ?? ""),
      message: withoutEcho(cause.message ?? cause.reason ?? "is invalid", cause.field ?? ""),
    }));
    return new InvalidInput(findings.length > 0 ? findings : [{ field: "", message }]);
  }
  if (isTooLarge(error)) return new InvalidInput([{ field: "", message: TOO_LARGE }]);
  // RBAC's 403 is our own installation's fault, not the caller's.
  if (error.code >= 400 && error.code < 500 && isByAdmission(error))
    return new InvalidInput([{ field: "", message }]);
  return undefined;
}

/**
 * The message without what the caller knows: `Invalid value: "…": ` (of an object: `Invalid value: `) and `spec.x in
 * body `.
 */
function withoutEcho(message: string, path: string): string {
  const rest = message.replace(/^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|\S+): )?/s, "");
  return rest.startsWith(`${path} in body `) ? rest.slice(`${path} in body `.length) : rest;
}
