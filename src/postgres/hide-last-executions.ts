import type { LedgerChange } from "../domain/ports/run-ledger.ts";
import { byKey } from "./by-key.ts";
import type { Queryable } from "./pool.ts";

/**
 * For changes that have been applied: what became of the runs of another account, to which the job's namespace was
 * bound before, is not for the new one to see. While it is bound to none, nobody knows yet whether the next one is
 * another. Only the id goes: what else the cursor has of it says how a one-time job ended that is put back to that time
 * (docs/decisions/0023, "another account").
 */
export async function hideLastExecutions(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<void> {
  const moved = changes.filter(
    ({ from, to }) => from !== undefined && to.account !== null && to.account !== from.account,
  );
  if (moved.length === 0) return;
  await client.query(
    `update job_cursors c set last_execution_id = null from unnest($1::uuid[]) as i(job_uid)
      where ${byKey("c.job_uid", "i.job_uid")} and c.last_execution_id is not null
        -- Not "not exists": that could become a join with all executions.
        and exists (
              select from executions e
               where e.account = c.account and e.job_id = c.job_id and e.id = c.last_execution_id
                 and ${byKey("e.executed_at", "c.last_executed_at")}) is not true`,
    [moved.map(({ job }) => job.uid)],
  );
}
