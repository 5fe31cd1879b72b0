import type { Job } from "../api-types.ts";
import { bodyOf, draftOf } from "./job-draft.ts";

/** The command that makes a job like this one. */
export function curlOf(job: Job, origin: string): string {
  const { body } = bodyOf(draftOf(job));
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  const text = JSON.stringify(given, null, 2).replaceAll("'", "'\\''");
  return `curl -sS ${origin}/jobs \\
  -H 'Content-Type: application/json' \\
  -H "X-API-Key: $CARILLON_API_KEY" \\
  -d '${text}'
`;
}
