import { afterAttempt } from "../domain/after-attempt.ts";
import { brokenOff } from "../domain/delivery-outcome.ts";
import type { Instant } from "../domain/instant.ts";
import type { Random } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { Closing, RunQueue } from "../domain/ports/run-queue.ts";
import { storedSpec } from "../domain/stored-spec.ts";
import { byKey } from "./by-key.ts";
import { claimedOf, type ClaimedRow } from "./claim-runs.ts";
import { UNCLAIMED } from "./claims.ts";
import { specWithoutBulk } from "./job-row.ts";
import type { Pool, Queryable } from "./pool.ts";
import { momentOf, type Moment } from "./rows.ts";
import { NIL_UUID } from "./uuid.ts";

/** Runs that one reap closes in one transaction. */
const REAP_BATCH = 500;
/** Milliseconds; the largest integer of PostgreSQL. */
const LONGEST_DURATION = 2 ** 31 - 1;

interface Reaping {
  pool: Pool;
  /** Names this process in the runs that it takes over. */
  reaper: string;
  close: RunQueue["close"];
  locked: RunQueue["locked"];
  /** For the backoff of interrupted runs. */
  random: Random;
  except: readonly string[];
  asOf: Instant | undefined;
}

/** `RunQueue.reap`. Runs that somebody has locked, or whose job's cursor is locked, are left to the next reap. */
export async function reapRuns(reaping: Reaping): ReturnType<RunQueue["reap"]> {
  const { pool, reaper, close, locked, random, except } = reaping;
  const now = momentOf(reaping.asOf);
  if (!(await anyExpired(pool, now))) return { requeued: 0, interrupted: 0 };
  const requeued = await requeueUnstarted(pool, now);
  let interrupted = 0;
  let after: string | undefined = NIL_UUID;
  while (after !== undefined) {
    const expired = await expiredStarts(pool, { reaper, asOf: now, except, after });
    const closings = expired.map((run) => interruptedClosing(run, random));
    const held = await locked(closings.map(({ run }) => run));
    interrupted += await closeInterrupted(
      close,
      closings.filter(({ run }) => !held.has(run.id)),
    );
    after = expired.length < REAP_BATCH ? undefined : expired.at(-1)?.id;
  }
  return { requeued, interrupted };
}

/**
 * Closes runs together. When PostgreSQL refuses the content of one, they are closed one by one, so that it does not hold
 * up the others.
 */
async function closeInterrupted(
  close: RunQueue["close"],
  closings: readonly Closing[],
): Promise<number> {
  try {
    return (await close(closings)).size;
  } catch (error) {
    if (error instanceof DependencyUnavailable || closings.length < 2) throw error;
  }
  let closed = 0;
  const refused: unknown[] = [];
  for (const closing of closings)
    await close([closing]).then(
      ({ size }) => (closed += size),
      (error: unknown) => refused.push(error),
    );
  if (refused.length > 0) throw refused[0];
  return closed;
}

/** SQL: whether a lease is over, at `asOf` too: PostgreSQL's clock may have stepped ahead of that moment since. */
const leaseOver = (asOf: string) => `lease_until < least(clock_timestamp(), ${asOf})`;

/** No index has the leases (migration 0007): this reads the whole queue, some 0.3 s for a million runs. */
async function anyExpired(database: Queryable, asOf: Moment): Promise<boolean> {
  const { rows } = await database.query<{ expired: boolean }>(
    `select exists (select from runs where ${leaseOver("$1")}) as expired`,
    [asOf],
  );
  return rows[0]?.expired === true;
}

async function requeueUnstarted(database: Queryable, asOf: Moment): Promise<number> {
  const { rowCount } = await database.query(
    `with expired as materialized (
       select id from runs
        where claim_token is not null and started_at is null and ${leaseOver("$1")}
        order by id for update skip locked
     )
     update runs r set ${UNCLAIMED}
       from expired e where ${byKey("r.id", "e.id")}`,
    [asOf],
  );
  return rowCount ?? 0;
}

type ExpiredRow = ClaimedRow & {
  claim_token: string;
  replaced: boolean;
  started_at: Instant;
  /** When its worker's lease ran out: nobody worked on it after that. */
  lease_until: Instant;
  now: Instant;
};

/**
 * Takes over runs behind `after` that a dead worker had started: a fresh token shuts out that worker, should it only
 * have slept. The lease stays as the worker left it, for whoever takes the run over again when this process does not
 * close it: because it dies, or somebody has locked the run. Other reapers leave it alone for 10 s, by the token's time.
 */
async function expiredStarts(
  pool: Pool,
  taking: Pick<Reaping, "reaper" | "except"> & { asOf: Moment; after: string },
): Promise<ExpiredRow[]> {
  const { reaper, asOf, except, after } = taking;
  const { rows } = await pool.query<ExpiredRow>(
    `with expired as materialized (
       select id from runs
        where claim_token is not null and started_at is not null and ${leaseOver("$3")}
          and id <> all($2::uuid[]) and id > $4
          and (worker not like 'reaper %' or worker = $5 or uuid_extract_timestamp(claim_token)
                 not between clock_timestamp() - interval '10 seconds' and clock_timestamp())
        order by id limit $1 for update skip locked
     ), taken as (
       update runs r set claim_token = (select uuidv7()), worker = $5
         from expired e where ${byKey("r.id", "e.id")} returning r.*
     )
     -- Without what is sent: hundreds of runs of dead workers may have 256 KiB each. One without its revision is closed
     -- too, or it would be taken over again and again.
     select t.*, true as started, ${specWithoutBulk("v.spec::jsonb")} as spec,
            clock_timestamp() as now
       from taken t
       left join job_revisions v on ${byKey("v.job_uid", "t.job_uid")} and v.generation = t.generation
      order by t.id`,
    [REAP_BATCH, except, asOf, after, reaper],
  );
  return rows.map((row) => ({ ...row, spec: storedSpec(row.spec) }));
}

function interruptedClosing(row: ExpiredRow, random: Random): Closing {
  const run = claimedOf(row, row.claim_token);
  const outcome = brokenOff(row.replaced ? "replaced" : "interrupted");
  const execution = {
    status: "failed" as const,
    httpStatus: outcome.httpStatus,
    durationMs: Math.min(LONGEST_DURATION, Math.max(0, row.lease_until - row.started_at)),
    errorMessage: outcome.error,
    executedAt: row.started_at,
  };
  return { run, execution, ...afterAttempt({ run, outcome, now: row.now, random }) };
}
