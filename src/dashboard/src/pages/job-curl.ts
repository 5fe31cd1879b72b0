import type { Job } from "../api-types.ts";
import { bodyOf, draftOf } from "./job-draft.ts";

/** The command that creates a job like this one. */
export function curlOf(job: Job, origin: string): string {
  const { body } = bodyOf(draftOf(job));
  // The payload as it is, even if the API is going to refuse it: it says why.
  const all = { ...body, webhook_payload: job.webhook_payload };
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
  const text = JSON.stringify(given, null, 2).replaceAll("'", "'\\''");
  return `curl -sS ${origin}/jobs \\
  -H 'Content-Type: application/json' \\
  -H "X-API-Key: $CARILLON_API_KEY" \\
  -d '${text}'
`;
}
