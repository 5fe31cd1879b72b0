import { Bell } from "../domain/bell.ts";
import { pause } from "../domain/pause.ts";
import type { Timers } from "../domain/ports/clock.ts";
import { PositionExpired, type JobEvent } from "../domain/ports/job-store.ts";
import {
  parsePosition,
  POSITION_AND_BOUNDS,
  positionAfter,
  positionText,
  type BoundedPositionRow,
  type JobPosition,
} from "./job-position.ts";
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
    let position = parsePosition(request.position);
    const { origin } = position;
    while (!signal.aborted) {
      const safe = await safePosition(pool, position);
      const stillAhead: typeof ahead = new Map();
      let found = false;
      for await (const changes of changesSince(pool, position.xid)) {
        const fresh: Change[] = [];
        for (const change of changes) {
          if (ahead.get(change.uid) !== change.version) fresh.push(change);
          else if (BigInt(change.xid) >= safe.xid) stillAhead.set(change.uid, change.version);
        }
        for await (const { row, xid } of wholeOf(pool, fresh)) {
          if (signal.aborted) return;
          if (xid >= safe.xid) stillAhead.set(row.uid, row.version);
          found = true;
          yield eventOf(row, positionText(xid < safe.xid ? { origin, xid } : safe));
        }
      }
      ahead = stillAhead;
      if (safe.xid > position.xid) {
        position = safe;
        yield { type: "bookmark", position: positionText(position) };
      }
      if (found) await pause(COLLECT_MS, timers, signal);
      await bell.wait(POLL_MS, signal);
    }
  } finally {
    unsubscribe();
  }
}

/** Throws PositionExpired when the changes since `at` cannot be told. */
async function safePosition(pool: Pool, at: JobPosition): Promise<JobPosition> {
  const { rows } = await pool.query<BoundedPositionRow>(`select ${POSITION_AND_BOUNDS}`);
  const safe = positionAfter(at, rows);
  if (!safe) throw new PositionExpired(`the position ${at.xid} is no longer known: list again`);
  return safe;
}

/** Without what the jobs hold: behind a transaction that stays open for long, all of them are looked at again. */
async function* changesSince(pool: Pool, xid: bigint): AsyncGenerator<readonly Change[]> {
  let last: Change | undefined;
  for (;;) {
    const { rows } = await pool.query<Change>(
      `select uid, version, changed_xid::text as xid from jobs
        where changed_xid >= $1::xid8 and ($2::xid8 is null or (changed_xid, uid) > ($2::xid8, $3::uuid))
        order by changed_xid, uid limit ${BATCH}`,
      [String(xid), last?.xid ?? null, last?.uid ?? null],
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
