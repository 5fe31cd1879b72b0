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

/** Which job has changed, and by which transaction; whether it is deleted, which is for good. */
interface Change {
  uid: string;
  xid: string;
  deleted: boolean;
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
      for await (const changes of changed(pool, position, now))
        for await (const one of wholeOf(pool, changes)) {
          if (signal.aborted) return;
          found = true;
          yield eventOf(one, positionText(position));
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

/** `behind`: one more condition. In the order of the index: no page reads what those before it had, nor what is for the next. */
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

/** Those from one position to the other, in the order in which their transactions began. */
async function* changed(
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
 * The jobs as they are by now, which may be later. One that is gone by now has been purged, which expires the position.
 * Nothing more is read of a deleted one: there may be as many at once as an account had jobs.
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
