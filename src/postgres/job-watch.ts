import { Bell } from "../waiting/bell.ts";
import { pause } from "../waiting/pause.ts";
import type { Timers } from "../domain/ports/clock.ts";
import { PositionExpired, type JobEvent } from "../domain/ports/job-store.ts";
import {
  changedSince,
  parsePosition,
  POSITION_AND_PURGED,
  positionAfter,
  positionText,
  type JobPosition,
  type LaterPositionRow,
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

/** Which job has changed, and by which transaction. */
interface Change {
  uid: string;
  xid: string;
}

/**
 * Changes by the transaction that made them: each look brings what those have done that are over now, and were not
 * at the look before. The position moves on when a look is through: who begins again in its midst gets all of it.
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
  try {
    let position = parsePosition(request.position);
    while (!signal.aborted) {
      const now = await later(pool, position);
      let found = false;
      for await (const uids of changed(pool, position, now))
        for await (const row of wholeOf(pool, uids)) {
          if (signal.aborted) return;
          found = true;
          yield eventOf(row, positionText(position));
        }
      if (now.snapshot !== position.snapshot) {
        position = now;
        yield { type: "bookmark", position: positionText(position) };
      }
      if (found) await pause(COLLECT_MS, timers, signal);
      await bell.wait(POLL_MS, signal);
    }
  } finally {
    unsubscribe();
  }
}

/** Throws PositionExpired when the changes since then cannot be told. */
async function later(pool: Pool, position: JobPosition): Promise<JobPosition> {
  const { rows } = await pool.query<LaterPositionRow>(`select ${POSITION_AND_PURGED}`);
  const now = positionAfter(position, rows);
  if (!now) throw new PositionExpired(`the position ${positionText(position)} is old: list again`);
  return now;
}

const CHANGES = `select uid, changed_xid::text as xid from (
    ${changedSince("uid, changed_xid", {
      open: "$1",
      next: "$2",
      also: `pg_visible_in_snapshot(changed_xid, $3::pg_snapshot)
        and ($4::xid8 is null or (changed_xid, uid) > ($4::xid8, $5::uuid))`,
    })}
  ) as changes
  order by changed_xid, uid limit ${BATCH}`;

/** Uids of those that have changed from one position to the other, in the order in which their transactions began. */
async function* changed(
  pool: Pool,
  from: JobPosition,
  to: JobPosition,
): AsyncGenerator<readonly string[]> {
  let last: Change | undefined;
  for (;;) {
    const { rows } = await pool.query<Change>(CHANGES, [
      from.open.map(String),
      String(from.next),
      to.snapshot,
      last?.xid ?? null,
      last?.uid ?? null,
    ]);
    yield rows.map(({ uid }) => uid);
    last = rows.at(-1);
    if (rows.length < BATCH) return;
  }
}

/** The jobs as they are by now, which may be later. One that is gone by now has been purged, which expires the position. */
async function* wholeOf(pool: Pool, uids: readonly string[]): AsyncGenerator<JobRow> {
  for (let from = 0; from < uids.length; from += WHOLE) {
    const some = uids.slice(from, from + WHOLE);
    const { rows } = await pool.query<JobRow>("select * from jobs where uid = any($1::uuid[])", [
      some,
    ]);
    const byUid = new Map(rows.map((row) => [row.uid, row]));
    for (const uid of some) {
      const row = byUid.get(uid);
      if (row) yield row;
    }
  }
}

function eventOf(row: JobRow, position: string): JobEvent {
  return row.deleted_at === null
    ? { type: "changed", job: jobOf(row), position }
    : { type: "deleted", uid: row.uid, position };
}
