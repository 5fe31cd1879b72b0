import type { Instant } from "../../src/domain/instant.ts";
import type { RunTrigger } from "../../src/domain/run.ts";
import type { Queryable } from "../../src/postgres/pool.ts";

export interface StoredRun {
  id: string;
  jobUid: string;
  trigger: RunTrigger;
  scheduledAt: Instant;
  generation: number;
  state: "queued" | "claimed" | "started";
  /** Attempts already recorded as executions. */
  attempts: number;
}

/** All unfinished runs of these jobs, oldest fire time first. */
export async function unfinishedRuns(
  database: Queryable,
  ...jobUids: readonly string[]
): Promise<StoredRun[]> {
  const { rows } = await database.query<StoredRun>(
    `select id, job_uid as "jobUid", trigger, scheduled_at as "scheduledAt", generation, attempts,
            case when started_at is not null then 'started'
                 when claim_token is not null then 'claimed' else 'queued' end as state
       from runs where job_uid = any($1::uuid[]) order by scheduled_at, id`,
    [jobUids],
  );
  return rows;
}
