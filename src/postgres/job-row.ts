import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import { storedSpec } from "../domain/stored-spec.ts";

/** Characters of the specs in one statement that writes many: a spec may have 256 KiB, or twice that with its escapes. */
export const SPECS_AT_A_TIME = 4 << 20;

/** SQL: a spec, as jsonb, as `withoutBulk` leaves that of a job: the rest may be a hundred times as large. */
export function specWithoutBulk(spec: string): string {
  return `jsonb_set(jsonb_set(${spec}, '{target,payload}', '""', false), '{target,body}', '""', false)`;
}

export interface JobRow {
  uid: string;
  account: string;
  id: string;
  generation: number;
  version: number;
  spec: unknown;
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
    spec: storedSpec(row.spec),
    owner: null,
    runNow: null,
  };
}
