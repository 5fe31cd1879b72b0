import type { JobSpec } from "../domain/job.ts";
import type { DestinationPolicy } from "../domain/ports/destination-policy.ts";
import type { SpecResult } from "../domain/rest-job.ts";
import { invalid } from "./errors.ts";

/** The spec, if it is valid and its destination may be called. Throws ApiError 400 with the findings. */
export async function acceptedSpec(
  destinations: DestinationPolicy,
  account: string,
  result: SpecResult,
): Promise<JobSpec> {
  if (!result.ok) throw invalid(result.findings);
  const { target } = result.spec;
  if (target.kind === "webhook") {
    const refusal = await destinations.refusal(account, new URL(target.url));
    if (refusal !== null) throw invalid([{ field: "webhook_url", message: refusal }]);
  }
  return result.spec;
}
