import type { Instant } from "../domain/instant.ts";
import type { Job, JobSpec } from "../domain/job.ts";

/** Characters of the specs in one statement that writes many: a spec may have 256 KiB, or twice that with its escapes. */
export const SPECS_AT_A_TIME = 4 << 20;

/** SQL: a spec, as jsonb, without what `withoutBulk` removes of a job: that may be a hundred times the rest. */
export function specWithoutBulk(spec: string): string {
  return `${spec} #- '{target,payload}' #- '{target,body}'`;
}

export interface JobRow {
  uid: string;
  account: string;
  id: string;
  generation: number;
  version: number;
  spec: JobSpec;
  created_at: Instant;
  deleted_at: Instant | null;
}

export function jobOf(row: JobRow): Job {
  return {
    uid: row.uid,
    account: row.account,
    id: row.id,
    generation: row.generation,
    version: String(row.version),
    createdAt: row.created_at,
    spec: row.spec,
    owner: null,
    runNow: null,
  };
}
