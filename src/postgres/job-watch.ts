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
/** Jobs that are read with their specs at a time: one has up to 256 KiB. */
const WHOLE = 50;
/** Milliseconds from changes found to the next look: the changes of a burst are found together. */
const COLLECT_MS = 50;
/** Milliseconds that a change may stay unseen when its notification is lost. */
const POLL_MS = 1_000;

/** Which job has changed, and by which transaction. A deletion is final. */
interface Change {
  uid: string;
  xid: string;
  deleted: boolean;
}

/**
 * Each look finds the changes of the transactions that have ended since the look before. The position moves on only
 * when a look is complete: a caller that begins again in the midst of it gets all of it once more.
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
    let first = true;
    while (!signal.aborted) {
      const now = await currentPosition(pool, position);
      let found = false;
      for await (const changes of changesBetween(pool, position, now))
        for await (const one of wholeOf(pool, changes)) {
          if (signal.aborted) return;
          found = true;
          yield eventOf(one, positionText(position));
        }
      // The first one tells the caller that the store answers: where nothing is written, there is no other.
      if (first || now.snapshot !== position.snapshot) {
        first = false;
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

/** Throws PositionExpired when the changes since `from` are not known any more. */
async function currentPosition(pool: Pool, from: JobPosition): Promise<JobPosition> {
  const { rows } = await pool.query<LaterPositionRow>(`select ${POSITION_AND_PURGED}`);
  const now = positionAfter(from, rows);
  if (!now) throw new PositionExpired(`the position ${positionText(from)} is old: list again`);
  return now;
}

/**
 * SQL of one page; `behind` is the condition that it follows the page before. In the order of the index, so that no
 * page reads rows of another.
 */
const changesOf = (behind: string) => `select uid, changed_xid::text as xid, deleted from (
    ${changedSince("uid, changed_xid, deleted_at is not null as deleted", {
      open: "$1",
      next: "$2",
      also: `pg_visible_in_snapshot(changed_xid, $3::pg_snapshot) ${behind}`,
      first: BATCH,
    })}
  ) as changes
  order by changed_xid, uid limit ${BATCH}`;
const CHANGES = changesOf("");
const LATER_CHANGES = changesOf("and (changed_xid, uid) > ($4::xid8, $5::uuid)");

/** Pages of changes, in the order in which their transactions began. */
async function* changesBetween(
  pool: Pool,
  from: JobPosition,
  to: JobPosition,
): AsyncGenerator<readonly Change[]> {
  const values = [from.open.map(String), String(from.next), to.snapshot];
  let last: Change | undefined;
  for (;;) {
    const { rows } = await (last === undefined
      ? pool.query<Change>(CHANGES, values)
      : pool.query<Change>(LATER_CHANGES, [...values, last.xid, last.uid]));
    yield rows;
    last = rows.at(-1);
    if (rows.length < BATCH) return;
  }
}

interface Found {
  uid: string;
  /** Undefined: deleted. */
  row: JobRow | undefined;
}

/**
 * The changed jobs as they are now, perhaps later than the change. A job without a row has been purged, which
 * expires the position. Deleted jobs are not read: all jobs of an account may be deleted at once.
 */
async function* wholeOf(pool: Pool, changes: readonly Change[]): AsyncGenerator<Found> {
  for (let from = 0; from < changes.length; from += WHOLE) {
    const some = changes.slice(from, from + WHOLE);
    const there = some.flatMap(({ uid, deleted }) => (deleted ? [] : [uid]));
    const { rows } =
      there.length === 0
        ? { rows: [] }
        : await pool.query<JobRow>("select * from jobs where uid = any($1::uuid[])", [there]);
    const byUid = new Map(rows.map((row) => [row.uid, row]));
    for (const { uid, deleted } of some) {
      const row = byUid.get(uid);
      if (deleted || row) yield { uid, row };
    }
  }
}

function eventOf({ uid, row }: Found, position: string): JobEvent {
  return row?.deleted_at === null
    ? { type: "changed", job: jobOf(row), position }
    : { type: "deleted", uid, position };
}
