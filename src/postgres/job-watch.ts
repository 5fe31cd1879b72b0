import { Bell } from "../domain/bell.ts";
import { pause } from "../domain/pause.ts";
import type { Timers } from "../domain/ports/clock.ts";
import { PositionExpired, type JobEvent } from "../domain/ports/job-store.ts";
import { jobOf, type JobRow } from "./job-row.ts";
import { JOBS_CHANNEL, type Notifications } from "./notifications.ts";
import type { Pool } from "./pool.ts";

const BATCH = 1_000;
/** Jobs that are read whole at a time: one has up to 256 KiB. */
const WHOLE = 50;
/** Milliseconds from changes found to the next look: what follows in a burst is found together. */
const COLLECT_MS = 50;
/** Milliseconds that a change may stay unseen when its notification is lost. */
const POLL_MS = 1_000;

/** What says whether a job has changed since it was delivered. */
interface Change {
  uid: string;
  version: number;
  xid: string;
}

/**
 * Transaction ids say nothing about another server, as after a failover or a restored backup, nor about a table that
 * was filled anew; a server that was restarted is listed once more for that.
 */
export const ORIGIN =
  "concat_ws('-', extract(epoch from pg_postmaster_start_time()), pg_relation_filenode('jobs'))";

/** Of a statement that reads jobs: every transaction before it is over, its changes are read, or never will be. */
export const POSITION = `${ORIGIN} || ':' || pg_snapshot_xmin(pg_current_snapshot())`;

/**
 * Changes by the transaction that made them. A transaction may commit long after one with a higher id:
 * so the position only ever moves up to the oldest transaction still running, and what lies behind it
 * is delivered at once but looked at again, until the position has passed it.
 */
export async function* watchJobs(request: {
  pool: Pool;
  notifications: Notifications;
  timers: Timers;
  position: string;
  signal: AbortSignal;
}): AsyncGenerator<JobEvent, void, undefined> {
  const { pool, timers, signal } = request;
  const bell = new Bell({ timers });
  const unsubscribe = request.notifications.on(JOBS_CHANNEL, () => {
    bell.ring();
  });
  /** Delivered, but not yet behind the position: uid → version. */
  let ahead = new Map<string, number>();
  try {
    const { origin, xid } = placeOf(request.position);
    let position = xid;
    while (!signal.aborted) {
      const safe = await safePosition(pool, { origin, xid: position });
      const stillAhead: typeof ahead = new Map();
      let found = false;
      for await (const changes of changesSince(pool, position)) {
        const fresh: Change[] = [];
        for (const change of changes) {
          if (ahead.get(change.uid) !== change.version) fresh.push(change);
          else if (BigInt(change.xid) >= safe) stillAhead.set(change.uid, change.version);
        }
        for await (const { row, xid } of wholeOf(pool, fresh)) {
          if (signal.aborted) return;
          if (xid >= safe) stillAhead.set(row.uid, row.version);
          found = true;
          yield eventOf(row, `${origin}:${xid < safe ? xid : safe}`);
        }
      }
      ahead = stillAhead;
      if (safe > position) {
        position = safe;
        yield { type: "bookmark", position: `${origin}:${position}` };
      }
      if (found) await pause(COLLECT_MS, timers, signal);
      await bell.wait(POLL_MS, signal);
    }
  } finally {
    unsubscribe();
  }
}

/** Throws PositionExpired when deletions after `at` are forgotten, or the database is another one. */
async function safePosition(pool: Pool, at: Place): Promise<bigint> {
  const { rows } = await pool.query<{
    origin: string;
    safe: string;
    end: string;
    purged: string | null;
  }>(
    `select ${ORIGIN} as origin, pg_snapshot_xmin(s)::text as safe, pg_snapshot_xmax(s)::text as end,
            (select value from carillon_meta where key = 'jobs_purged_xid') as purged
       from pg_current_snapshot() as s`,
  );
  const row = rows[0];
  if (row === undefined) throw new Error("no snapshot");
  const known = at.origin === row.origin && at.xid > BigInt(row.purged ?? "0");
  if (!known || at.xid > BigInt(row.end))
    throw new PositionExpired(`the position ${at.xid} is no longer known: list again`);
  return BigInt(row.safe);
}

/** Without what the jobs hold: behind a transaction that stays open for long, all of them are looked at again. */
async function* changesSince(pool: Pool, position: bigint): AsyncGenerator<readonly Change[]> {
  let last: Change | undefined;
  for (;;) {
    const { rows } = await pool.query<Change>(
      `select uid, version, changed_xid::text as xid from jobs
        where changed_xid >= $1::xid8 and ($2::xid8 is null or (changed_xid, uid) > ($2::xid8, $3::uuid))
        order by changed_xid, uid limit ${BATCH}`,
      [String(position), last?.xid ?? null, last?.uid ?? null],
    );
    yield rows;
    last = rows.at(-1);
    if (rows.length < BATCH) return;
  }
}

/**
 * The jobs as they are by now, which may be later than `changes` says, each with the transaction that was seen to
 * change it. One that is gone by now has been purged, which expires the position.
 */
async function* wholeOf(
  pool: Pool,
  changes: readonly Change[],
): AsyncGenerator<{ row: JobRow; xid: bigint }> {
  for (let from = 0; from < changes.length; from += WHOLE) {
    const some = changes.slice(from, from + WHOLE);
    const { rows } = await pool.query<JobRow>("select * from jobs where uid = any($1::uuid[])", [
      some.map(({ uid }) => uid),
    ]);
    const byUid = new Map(rows.map((row) => [row.uid, row]));
    for (const { uid, xid } of some) {
      const row = byUid.get(uid);
      if (row) yield { row, xid: BigInt(xid) };
    }
  }
}

function eventOf(row: JobRow, position: string): JobEvent {
  return row.deleted_at === null
    ? { type: "changed", job: jobOf(row), position }
    : { type: "deleted", uid: row.uid, position };
}

interface Place {
  origin: string;
  xid: bigint;
}

function placeOf(position: string): Place {
  const [, origin, xid] = /^(.+):(\d{1,20})$/.exec(position) ?? [];
  if (origin === undefined || xid === undefined)
    throw new PositionExpired(`not a position of this store: ${position}`);
  return { origin, xid: BigInt(xid) };
}
