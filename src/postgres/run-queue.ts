import { randomUUID } from "node:crypto";
import type { Instant } from "../domain/instant.ts";
import type { Random } from "../domain/ports/clock.ts";
import type { Claim, Closing, RunQueue } from "../domain/ports/run-queue.ts";
import { byKey } from "./by-key.ts";
import { claimRuns } from "./claim-runs.ts";
import { commitsWait } from "./commits-wait.ts";
import { HELD, UNCLAIMED } from "./claims.ts";
import { closeRuns } from "./close-runs.ts";
import { createJobNotifier } from "./job-notifications.ts";
import { heldLocks } from "./held-locks.ts";
import { lockedRuns } from "./locked-runs.ts";
import {
  CLOSED_CHANNEL,
  CURSORS_CHANNEL,
  RUNS_CHANNEL,
  type Notifications,
} from "./notifications.ts";
import type { Pool } from "./pool.ts";
import { reapRuns } from "./reap-runs.ts";
import { withContentErrors } from "./content-errors.ts";
import { plainArray } from "./rows.ts";
import { parseRunNotification, notifyRuns } from "./run-notifications.ts";
import { startRuns } from "./start-runs.ts";

/**
 * Both pools have fixed plans. `leasePool` has connections of its own, so that leases are renewed while every other
 * connection waits. Statements that wait for locks take them in the order of run ids, because starting, closing and
 * giving back meet on the same rows all the time.
 */
export function createRunQueue(options: {
  pool: Pool;
  leasePool: Pool;
  notifications: Notifications;
  /** For the backoff of interrupted runs. */
  random: Random;
  /** Hears how many runs were missed because their starting deadline had passed when they were to be started. */
  onPastDeadline?: (count: number) => void;
}): RunQueue {
  const { pool, leasePool, notifications, random, onPastDeadline } = options;
  const notifier = createJobNotifier({ database: pool });
  const reaper = `reaper ${randomUUID()}`;

  async function close(closings: readonly Closing[]): Promise<Set<string>> {
    const ids = new Set<string>();
    await closeRuns(pool, closings, ({ runs, cursors }) => {
      notifier.notify(CLOSED_CHANNEL, runs.values());
      notifier.notify(CURSORS_CHANNEL, cursors);
      for (const id of runs.keys()) ids.add(id);
    });
    // A former try may have closed these, and its answer was lost: then nobody has been told of them.
    const others = closings.flatMap(({ run }) => (ids.has(run.id) ? [] : [run.jobUid]));
    notifier.notify(CLOSED_CHANNEL, others);
    notifier.notify(CURSORS_CHANNEL, others);
    return ids;
  }

  const locked: RunQueue["locked"] = (runs, looks) =>
    heldLocks(pool, () => lockedRuns(pool, runs), looks);

  return {
    claim: (request) => claimRuns(pool, request),

    unclaim: async (tokens) => {
      // No index has the tokens (migration 0007): this reads the whole queue, which is rare.
      const { rows } = await pool.query<{ not_before: Instant }>(
        `with theirs as materialized (
           select id from runs where claim_token = any($1::uuid[]) order by id for update skip locked
         )
         update runs r
            set ${UNCLAIMED}
           from theirs where ${byKey("r.id", "theirs.id")} returning r.not_before`,
        [tokens],
      );
      await notifyRuns(
        pool,
        rows.map((row) => row.not_before),
      );
    },

    start: (runs) => startRuns(pool, runs, onPastDeadline),

    close: (closings) => withContentErrors(() => close(closings)),

    locked,

    release: async (runs, notBefore) => {
      if (runs.length === 0) return;
      await pool.query({
        name: "release_runs",
        text: `with ${MINE}
         update runs r
            set ${UNCLAIMED}, not_before = greatest(r.not_before, $3)
           from mine where ${byKey("r.id", "mine.id")}`,
        values: [...identify(runs), notBefore === undefined ? null : new Date(notBefore)],
      });
      if (notBefore === undefined)
        await notifyRuns(
          pool,
          runs.map((run) => run.notBefore),
        );
    },

    renew: async (claims, leaseMs) => {
      if (claims.length === 0) return new Map();
      // Closing and starting lock rows for a moment, an administrator perhaps for minutes: other leases must not wait.
      const { rows } = await leasePool.query<{ id: string; answer: "renewed" | "locked" }>({
        name: "renew_claims",
        text: `with held as materialized (
           select r.id, i.token from ${HELD_ROWS}
         ), free as materialized (
           select r.id from runs r
             join held on ${byKey("r.id", "held.id")} and r.claim_token = held.token
              for update of r skip locked
         ), renewed as (
           update runs r set lease_until = clock_timestamp() + $3 * interval '1 millisecond'
             from free where ${byKey("r.id", "free.id")} returning r.id
         )
         -- A union: a subquery for each claim would read all renewed rows each time.
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

    commitsWait: () => commitsWait(pool),

    reap: ({ except, asOf } = { except: [] }) =>
      reapRuns({ pool, reaper, close, locked, random, except, asOf }),

    onWake: (listener) =>
      notifications.on(RUNS_CHANNEL, (since) => {
        listener(parseRunNotification(since));
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

/** SQL: the runs of the claims ($1 ids, $2 tokens) that still hold. */
const HELD_ROWS = `runs r join unnest($1::uuid[], $2::uuid[]) as i(id, token) on ${HELD}`;

/** SQL: the same, locked in the common order. */
const MINE = `mine as materialized (
  select r.id from ${HELD_ROWS} order by i.id for update of r
)`;

function identify(claims: readonly Claim[]): string[] {
  return [
    plainArray(claims.map(({ id }) => id)),
    plainArray(claims.map(({ claimToken }) => claimToken)),
  ];
}
