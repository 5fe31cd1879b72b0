import type { Job } from "../api-types.ts";

/** Fields that POST /jobs answers with but does not take. */
const ANSWER_ONLY = new Set([
  "id",
  "status",
  "created_at",
  "next_run_at",
  "last_run_at",
  "last_status",
]);

/** The command that makes a job like this one. */
export function curlOf(job: Job, origin = location.origin): string {
  const body = Object.fromEntries(
    Object.entries(job).filter(([name, value]) => value !== null && !ANSWER_ONLY.has(name)),
  );
  const text = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return `curl -sS ${origin}/jobs \\
  -H 'Content-Type: application/json' \\
  -H "X-API-Key: $CARILLON_KEY" \\
  -d '${text}'
`;
}
