import { randomUUID } from "node:crypto";
import { afterAttempt } from "../domain/attempt.ts";
import { keyOfParts, MAIL_SERVER } from "../domain/destination.ts";
import type { Instant } from "../domain/instant.ts";
import type { JobSpec } from "../domain/job.ts";
import { DependencyUnavailable, LockHeld } from "../domain/ports/dependency-down.ts";
import type { Random } from "../domain/ports/clock.ts";
import type { Claim, Closing, RunQueue } from "../domain/ports/run-queue.ts";
import type { ClaimedRun, RunTrigger } from "../domain/run.ts";
import { closeRuns } from "./close-runs.ts";
import { byKey } from "./by-key.ts";
import { insist, UNMET } from "./insist.ts";
import { createTeller } from "./ledger-news.ts";
import { lockedRuns } from "./locked-runs.ts";
import { sinceOf, tellOfRuns } from "./run-news.ts";
import {
  CLOSED_CHANNEL,
  CURSORS_CHANNEL,
  RUNS_CHANNEL,
  type Notifications,
} from "./notifications.ts";
import type { Pool, Queryable } from "./pool.ts";
import { refusingContent } from "./refusing-content.ts";
import { plainArray } from "./rows.ts";
import { sqlState } from "./sql-state.ts";
import { DUE, MAY_BE_TOO_LATE, startRuns, UNWANTED } from "./start-runs.ts";

const INTERRUPTED = "interrupted: outcome unknown";
const REPLACED = "replaced: outcome unknown";
/** Runs that one reap closes in one transaction. */
const REAP_BATCH = 500;
/** Milliseconds; an integer of PostgreSQL. */
const LONGEST_DURATION = 2 ** 31 - 1;

/**
 * Both pools have fixed plans. `leasePool` has connections of its own, so that leases are renewed while every
 * other connection waits. Who waits for locks takes them in the order of run ids: starting, closing and giving back
 * meet on the same rows all the time.
 */
export function createRunQueue(options: {
  pool: Pool;
  leasePool: Pool;
  notifications: Notifications;
  /** For the backoff of interrupted runs. */
  random: Random;
  /** So many fire times have been missed at the start of their runs, whose starting deadline had passed. */
  onPastDeadline?: (count: number) => void;
}): RunQueue {
  const { pool, leasePool, notifications, random, onPastDeadline } = options;
  const teller = createTeller({ database: pool });

  async function close(closings: readonly Closing[]): Promise<Set<string>> {
    const ids = new Set<string>();
    await closeRuns(pool, closings, ({ runs, cursors }) => {
      teller.tell(CLOSED_CHANNEL, runs.values());
      teller.tell(CURSORS_CHANNEL, cursors);
      for (const id of runs.keys()) ids.add(id);
    });
    return ids;
  }

  /**
   * Together, without those that somebody has locked, which the next reap finds again; or one by one when the content of
   * one is refused: it must not hold up all the others.
   */
  async function closeInterrupted(closings: readonly Closing[]): Promise<number> {
    try {
      return (await close(closings)).size;
    } catch (error) {
      if (error instanceof LockHeld) {
        const held = await lockedRuns(
          pool,
          closings.map(({ run }) => run),
        );
        if (held.size === 0) throw error;
        return closeInterrupted(closings.filter(({ run }) => !held.has(run.id)));
      }
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

  return {
    claim: async (request) => {
      // The places as one array, and the revision beside each row: nothing is looked up twice, nor by anything but its
      // key, however long the queue and the history of revisions are.
      const token = request.token ?? randomUUID();
      const { rows } = await inTime(() =>
        pool.query<ClaimedRow>({
          name: "claim_runs",
          text: `with due as materialized (
           select ctid from runs
            where claim_token is null and not_before >= $7 and not_before <= $3
              and ${insist("statement_timestamp() < $11", "a claim was taken up too late: it is made again")}
              and account <> all($5::uuid[]) and destination <> all($6::text[])
            order by not_before limit $2 for update skip locked
         ), claimed as (
           update runs r
              set claim_token = $8, worker = $1,
                  lease_until = clock_timestamp() + $4 * interval '1 millisecond',
                  started_at = case when ${starts({ wanted: "$9", except: "$10" })} then clock_timestamp() end
            where r.ctid = any(array(select ctid from due))
           returning ${CLAIMED_COLUMNS}
         )
         select c.*, v.spec from claimed c cross join lateral (
                  select spec from job_revisions
                   where ${byKey("job_uid", "c.job_uid")} and generation = c.generation) v
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
          ],
        }),
      );
      // Runs of one job share what they send: a thousand payloads are a gigabyte.
      const specs = new Map<string, JobSpec>();
      return rows.map((row) => {
        const revision = `${row.job_uid} ${row.generation}`;
        const spec = specs.get(revision);
        if (spec) row.spec = spec;
        else specs.set(revision, row.spec);
        return claimedOf(row, token);
      });
    },

    unclaim: async (tokens) => {
      // No index knows the tokens (migration 0007), and it is rare.
      const { rows } = await pool.query<{ not_before: Instant }>(
        `with theirs as materialized (
           select id from runs where claim_token = any($1::uuid[]) order by id for update skip locked
         )
         update runs r
            set claim_token = null, worker = null, lease_until = null, started_at = null
           from theirs where ${byKey("r.id", "theirs.id")} returning r.not_before`,
        [tokens],
      );
      await tellOfRuns(
        pool,
        rows.map((row) => row.not_before),
      );
    },

    start: (runs) => startRuns(pool, runs, onPastDeadline),

    close: (closings) => refusingContent(() => close(closings)),

    locked: (runs) => lockedRuns(pool, runs),

    release: async (runs, notBefore) => {
      if (runs.length === 0) return;
      await pool.query({
        name: "release_runs",
        text: `with ${MINE}
         update runs r
            set claim_token = null, worker = null, lease_until = null, started_at = null,
                not_before = greatest(r.not_before, $3)
           from mine where ${byKey("r.id", "mine.id")}`,
        values: [...identify(runs), notBefore === undefined ? null : new Date(notBefore)],
      });
      if (notBefore === undefined)
        await tellOfRuns(
          pool,
          runs.map((run) => run.notBefore),
        );
    },

    renew: async (claims, leaseMs) => {
      if (claims.length === 0) return new Map();
      // Closing and starting lock rows for a moment, an administrator perhaps for minutes: no other lease waits for that.
      const { rows } = await leasePool.query<{ id: string; answer: "renewed" | "locked" }>({
        name: "renew_claims",
        text: `with held as materialized (
           select r.id, i.token from ${HELD}
         ), free as materialized (
           select r.id from runs r
             join held on ${byKey("r.id", "held.id")} and r.claim_token = held.token
              for update of r skip locked
         ), renewed as (
           update runs r set lease_until = clock_timestamp() + $3 * interval '1 millisecond'
             from free where ${byKey("r.id", "free.id")} returning r.id
         )
         -- One after the other: asked of each claim, all that were renewed would be read for each of them.
         select id, 'locked' as answer from held union all select id, 'renewed' from renewed`,
        values: [...identify(claims), leaseMs],
      });
      const answers = new Map<string, "renewed" | "locked">();
      for (const { id, answer } of rows)
        if (answer === "renewed" || !answers.has(id)) answers.set(id, answer);
      return answers;
    },

    unwanted: async (runIds) => {
      if (runIds.length === 0) return new Map();
      const { rows } = await pool.query<{ id: string; why: "replaced" | "deleted" }>(
        `select r.id, case when r.replaced then 'replaced' else 'deleted' end as why from runs r
           left join job_cursors c on ${byKey("c.job_uid", "r.job_uid")}
           left join accounts a on ${byKey("a.id", "r.account")}
          where r.id = any($1::uuid[])
            and (r.replaced or c.deleted_at is not null or a.deleted_at is not null)`,
        [runIds],
      );
      return new Map(rows.map(({ id, why }) => [id, why]));
    },

    reap: async ({ except, asOf } = { except: [] }) => {
      const now = momentOf(asOf);
      if (!(await anyExpired(pool, now))) return { requeued: 0, interrupted: 0 };
      const requeued = await requeueUnstarted(pool, now);
      let interrupted = 0;
      for (;;) {
        const expired = await expiredStarts(pool, now, except);
        interrupted += await closeInterrupted(
          expired.map((run) => interruptedClosing(run, random)),
        );
        if (expired.length < REAP_BATCH) return { requeued, interrupted };
      }
    },

    onWake: (listener) =>
      notifications.on(RUNS_CHANNEL, (since) => {
        listener(sinceOf(since));
      }),

    depth: async () => {
      const { rows } = await pool.query<{ queued: number; started: number; oldest: number | null }>(
        `select count(*) filter (where started_at is null) as queued,
                count(*) filter (where started_at is not null) as started,
                (extract(epoch from clock_timestamp()
                   - min(not_before) filter (where started_at is null)) * 1000)::double precision
                  as oldest
           from runs`,
      );
      const row = rows[0];
      const oldest = row?.oldest ?? null;
      return {
        queued: row?.queued ?? 0,
        started: row?.started ?? 0,
        oldestDueMs: oldest === null || oldest < 0 ? null : Math.round(oldest),
      };
    },
  };
}

const TO_MAIL_SERVERS = keyOfParts({ account: "%", destination: MAIL_SERVER });

/**
 * Of a claimed run `r`: whether it is started at once. `wanted` and `except` are the parameters of `start` and whom it
 * excepts. Judged as in `startRuns`, under the lock of the run's row. A mail waits for one of the few connections to its
 * server.
 */
function starts({ wanted, except }: { wanted: string; except: string }): string {
  return `${wanted}::boolean and ${DUE} and r.destination <> all(${except}::text[])
  and r.destination not like '${TO_MAIL_SERVERS}' and not (${MAY_BE_TOO_LATE} and exists (
    select from job_revisions v where ${byKey("v.job_uid", "r.job_uid")} and v.generation = r.generation
       and v.spec ->> 'startingDeadlineSeconds' is not null))
  and (select ${UNWANTED} is null from job_cursors c where ${byKey("c.job_uid", "r.job_uid")})`;
}

/** A claim that was taken up too late is one that PostgreSQL could not be asked for. */
async function inTime<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw sqlState(error) === UNMET
      ? new DependencyUnavailable("postgres", { cause: error })
      : error;
  }
}

/** The rows of the claims ($1 ids, $2 tokens) that still hold. */
const HELD = `runs r join unnest($1::uuid[], $2::uuid[]) as i(id, token)
  on ${byKey("r.id", "i.id")} and r.claim_token = i.token`;

/** Locked in everybody's order. */
const MINE = `mine as materialized (
  select r.id from ${HELD} order by i.id for update of r
)`;

function identify(claims: readonly Claim[]): string[] {
  return [
    plainArray(claims.map(({ id }) => id)),
    plainArray(claims.map(({ claimToken }) => claimToken)),
  ];
}

interface ClaimedRow {
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

function claimedOf(row: ClaimedRow, claimToken: string): ClaimedRun {
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

/** For PostgreSQL. */
type Moment = Date | "infinity";

function momentOf(instant: Instant | undefined): Moment {
  return instant === undefined ? "infinity" : new Date(instant);
}

/** Of the parameter that is the moment by which leases are judged: what PostgreSQL's clock has got ahead of it does not count. */
const leaseOver = (asOf: string) => `lease_until < least(clock_timestamp(), ${asOf})`;

/** No index knows the leases (migration 0007): one look at the whole queue, some 0.3 s for a million runs. */
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
     update runs r set claim_token = null, worker = null, lease_until = null
       from expired e where ${byKey("r.id", "e.id")}`,
    [asOf],
  );
  return rowCount ?? 0;
}

type ExpiredRow = ClaimedRow & {
  claim_token: string;
  replaced: boolean;
  started_at: Instant;
  /** When its worker's lease ran out: nobody was at work on it later. */
  held_until: Instant;
  now: Instant;
};

/**
 * Takes over what a dead worker had started: a fresh token shuts that worker out, should it only have
 * been asleep, and another reaper too. Whoever dies before closing leaves it to the next reaper.
 */
async function expiredStarts(
  pool: Pool,
  asOf: Moment,
  except: readonly string[],
): Promise<ExpiredRow[]> {
  const { rows } = await pool.query<ExpiredRow>(
    `with expired as materialized (
       select id, lease_until as held_until from runs
        where claim_token is not null and started_at is not null and ${leaseOver("$3")}
          and id <> all($2::uuid[])
        order by id limit $1 for update skip locked
     ), taken as (
       update runs r
          set claim_token = (select gen_random_uuid()), worker = 'reaper',
              lease_until = clock_timestamp() + interval '10 seconds'
         from expired e where ${byKey("r.id", "e.id")} returning r.*, e.held_until
     )
     select t.*, true as started, v.spec, clock_timestamp() as now
       from taken t
       join job_revisions v on ${byKey("v.job_uid", "t.job_uid")} and v.generation = t.generation`,
    [REAP_BATCH, except, asOf],
  );
  return rows;
}

function interruptedClosing(row: ExpiredRow, random: Random): Closing {
  const run = claimedOf(row, row.claim_token);
  const error = row.replaced ? REPLACED : INTERRUPTED;
  const execution = {
    status: "failed" as const,
    httpStatus: 500,
    durationMs: Math.min(LONGEST_DURATION, Math.max(0, row.held_until - row.started_at)),
    errorMessage: error,
    executedAt: row.started_at,
  };
  const after = afterAttempt({
    run,
    outcome: { kind: "retryable", httpStatus: 500, error, retryAfterMs: null },
    now: row.now,
    random,
  });
  return after.next === "retry"
    ? { run, execution, next: "retry", notBefore: after.notBefore }
    : { run, execution, next: "finished" };
}
