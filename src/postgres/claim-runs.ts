import { randomUUID } from "node:crypto";
import { keyOfParts, MAIL_SERVER } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { JobSpec } from "../domain/job.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun, RunTrigger } from "../domain/run.ts";
import { storedSpec } from "../domain/stored-spec.ts";
import { byKey } from "./by-key.ts";
import { sqlAssertion, ASSERTION_FAILED } from "./sql-assertion.ts";
import type { Pool } from "./pool.ts";
import { momentOf } from "./rows.ts";
import { sqlState } from "./sql-state.ts";
import { DUE, MAY_BE_TOO_LATE, UNWANTED } from "./start-runs.ts";

/** `RunQueue.claim`. */
export async function claimRuns(
  pool: Pool,
  request: Parameters<RunQueue["claim"]>[0],
): Promise<ClaimedRun[]> {
  // Rows are updated by their ctid, and revisions looked up by their key, one for each row: no plan can read the whole
  // queue, or all revisions.
  const token = request.token ?? randomUUID();
  const { rows } = await inTime(() =>
    pool.query<ClaimedRow>({
      name: "claim_runs",
      text: `with due as materialized (
       select ctid from runs
        where claim_token is null and not_before >= $7 and not_before <= $3
          and ${sqlAssertion("statement_timestamp() < $11", "a claim was taken up too late: it is made again")}
          and account <> all($5::uuid[]) and destination <> all($6::text[])
          and job_uid <> all($12::uuid[])
        order by not_before limit $2 for update skip locked
     ), claimed as (
       update runs r
          set claim_token = $8, worker = $1,
              lease_until = clock_timestamp() + $4 * interval '1 millisecond',
              started_at = case when ${starts({ wanted: "$9", except: "$10" })} then clock_timestamp() end
        where r.ctid = any(array(select ctid from due))
       returning ${CLAIMED_COLUMNS}
     )
     -- One without its revision cannot be sent, but has been claimed: whoever holds it must know of it.
     select c.*, v.spec from claimed c left join lateral (
              select spec from job_revisions
               where ${byKey("job_uid", "c.job_uid")} and generation = c.generation) v on true
      order by c.not_before, c.id`,
      values: [
        request.worker,
        request.limit,
        new Date(request.until),
        request.leaseMs,
        request.exceptAccounts ?? [],
        request.exceptDestinations ?? [],
        typeof request.from === "number" ? new Date(request.from) : "-infinity",
        token,
        request.start !== undefined,
        request.start?.exceptDestinations ?? [],
        momentOf(request.before),
        request.exceptJobs ?? [],
      ],
    }),
  );
  // Runs of one job share a spec: a thousand copies of a payload would take a gigabyte.
  const specs = new Map<string, JobSpec>();
  return rows.map((row) => {
    const revision = `${row.job_uid} ${row.generation}`;
    const spec = specs.get(revision);
    if (spec) row.spec = spec;
    else specs.set(revision, (row.spec = storedSpec(row.spec)));
    return claimedOf(row, token);
  });
}

const TO_MAIL_SERVERS = keyOfParts({ account: "%", destination: MAIL_SERVER });

/**
 * SQL: whether claimed run `r` is started at once, judged as in `startRuns`, under the lock of the run's row.
 * `wanted` and `except` name the parameters with `request.start` and its exceptions. Mails are never started here:
 * they wait for one of the few connections to their server.
 */
function starts({ wanted, except }: { wanted: string; except: string }): string {
  return `${wanted}::boolean and ${DUE} and r.destination <> all(${except}::text[])
  and r.destination not like '${TO_MAIL_SERVERS}' and not (${MAY_BE_TOO_LATE} and exists (
    select from job_revisions v where ${byKey("v.job_uid", "r.job_uid")} and v.generation = r.generation
       and v.spec ->> 'startingDeadlineSeconds' is not null))
  and (select ${UNWANTED} is null from job_cursors c where ${byKey("c.job_uid", "r.job_uid")})`;
}

/** A claim that PostgreSQL began too late counts as one that it did not answer. */
async function inTime<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw sqlState(error) === ASSERTION_FAILED
      ? new DependencyUnavailable("postgres", { cause: error })
      : error;
  }
}

/** A row of `runs`, with its job's spec. */
export interface ClaimedRow {
  id: string;
  account: string;
  job_uid: string;
  job_id: string;
  generation: number;
  trigger: RunTrigger;
  scheduled_at: Instant;
  not_before: Instant;
  created_at: Instant;
  attempts: number;
  retry_at: Instant | null;
  destination: string;
  started: boolean;
  spec: JobSpec;
}

const CLAIMED_COLUMNS = `r.id, r.account, r.job_uid, r.job_id, r.generation, r.trigger,
  r.scheduled_at, r.not_before, r.created_at, r.attempts, r.retry_at, r.destination,
  r.started_at is not null as started`;

export function claimedOf(row: ClaimedRow, claimToken: string): ClaimedRun {
  return {
    id: row.id,
    claimToken,
    account: row.account,
    jobUid: row.job_uid,
    jobId: row.job_id,
    generation: row.generation,
    trigger: row.trigger,
    scheduledAt: row.scheduled_at,
    notBefore: row.not_before,
    createdAt: row.created_at,
    attempt: row.attempts + 1,
    retryAt: row.retry_at,
    destination: row.destination,
    started: row.started,
    spec: row.spec,
  };
}
