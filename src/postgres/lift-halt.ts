import type { Job } from "../domain/job.ts";
import { VersionConflict } from "../domain/ports/job-store.ts";
import type { RunLedger } from "../domain/ports/run-ledger.ts";

/** How often the cursor is read again after somebody else wrote it between our read and our write. */
const TRIES = 5;

/**
 * Removes the halt of a 410 from the cursor. The leader hears of it from `apply`, because the job store tells nothing
 * of it. The rest is the leader's to decide, which then starts from now; scheduled runs that were queued during the
 * halt are dropped, as after a pause (docs/decisions/0023, "pause" and "resume"). `haltedAt` stays, because the leader
 * may not have taken it up yet. Throws `VersionConflict` when others keep writing.
 */
export async function liftHalt(options: {
  ledger: Pick<RunLedger, "apply" | "cursors">;
  job: Job;
}): Promise<void> {
  const { ledger, job } = options;
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const cursor = (await ledger.cursors([job.uid])).get(job.uid);
    if (!cursor || cursor.deleted || cursor.haltedGeneration === null) return;
    const { jobUid: _uid, version: _version, ...state } = cursor;
    const to = { ...state, haltedGeneration: null };
    const { conflicts } = await ledger.apply([
      { job, spec: job.spec, from: cursor, to, create: [], replace: [], missed: [] },
    ]);
    if (conflicts.length === 0) return;
  }
  throw new VersionConflict(`the cursor of job ${job.id} changed ${TRIES} times`);
}
