import { PositionExpired } from "../domain/ports/job-store.ts";

/**
 * How far somebody has read the jobs: what a snapshot of PostgreSQL shows. A transaction may commit long after one
 * with a higher id, so that all that were open are named. Transaction ids mean nothing on another server (after a
 * failover, or in a restored backup) or in a table that was filled anew: `origin` names both. A restarted server
 * counts as another one, and so does one that has recovered because one of its processes had crashed: it gives out
 * again the ids of transactions that it had not written down, such as those that only notified. Such a recovery resets
 * the server's statistics; where an administrator does so, the jobs are read anew once.
 */
export interface JobPosition {
  origin: string;
  /** As PostgreSQL writes a `pg_snapshot`: `xmin:xmax:open,…`. */
  snapshot: string;
  /** Transactions that were open. */
  open: readonly bigint[];
  /** The first transaction that had not begun. All earlier ones that were not open had ended: they are read. */
  next: bigint;
}

/** What {@link POSITION} selects. */
export interface PositionRow {
  origin: string;
  snapshot: string;
}

/** SQL, for a select list: the position of a reader that reads the jobs in the same statement. */
export const POSITION = `
  concat_ws('-', extract(epoch from pg_postmaster_start_time()),
    extract(epoch from (select stats_reset from pg_stat_bgwriter)), pg_relation_filenode('jobs')) as origin,
  pg_current_snapshot()::text as snapshot`;

/** What {@link POSITION_AND_PURGED} selects. */
export interface LaterPositionRow extends PositionRow {
  purged: string | null;
}

/** SQL: the same, with what `positionAfter` needs to tell whether the changes since an earlier position are known. */
export const POSITION_AND_PURGED = `${POSITION},
  (select value from carillon_meta where key = 'jobs_purged_xid') as purged`;

/**
 * SQL: `columns` of the jobs that were changed since the position with `open` and `next`, and for which condition
 * `also` holds. Two index scans, since all jobs may have been changed between the oldest open transaction and the
 * next. `first`: limits each scan to its earliest rows.
 */
export function changedSince(
  columns: string,
  { open, next, also, first }: { open: string; next: string; also: string; first?: number },
): string {
  const cut = first === undefined ? "" : `order by changed_xid, uid limit ${first}`;
  return `(select ${columns} from jobs where changed_xid = any(${open}::xid8[]) and ${also} ${cut})
    union all
    (select ${columns} from jobs where changed_xid >= ${next}::xid8 and ${also} ${cut})`;
}

export function positionOf(rows: readonly PositionRow[]): JobPosition {
  const { origin, snapshot } = anyOf(rows);
  return parsePosition(`${origin}:${snapshot}`);
}

/** Undefined when deletions after `from` have been purged, or the server or the table is another one. */
export function positionAfter(
  from: JobPosition,
  rows: readonly LaterPositionRow[],
): JobPosition | undefined {
  const purged = BigInt(anyOf(rows).purged ?? "0");
  const now = positionOf(rows);
  if (now.origin !== from.origin || now.next < from.next || purged >= from.next) return undefined;
  // A transaction that is still open has not deleted anything that could have been purged.
  const mayBePurged = from.open.some((xid) => xid <= purged && !now.open.includes(xid));
  return mayBePurged ? undefined : now;
}

/** All rows of a statement have the same position. There is always a row, even without jobs. */
function anyOf<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Error("a statement without its position");
  return row;
}

export function positionText({ origin, snapshot }: JobPosition): string {
  return `${origin}:${snapshot}`;
}

/** Throws PositionExpired for a text that {@link positionText} has not written. */
export function parsePosition(text: string): JobPosition {
  const [, origin, snapshot, next, open] =
    /^([^:]+):(\d{1,20}:(\d{1,20}):((?:\d{1,20}(?:,\d{1,20})*)?))$/.exec(text) ?? [];
  if (origin === undefined || snapshot === undefined || next === undefined)
    throw new PositionExpired(`not a position of this store: ${text}`);
  return {
    origin,
    snapshot,
    open: open ? open.split(",").map((xid) => BigInt(xid)) : [],
    next: BigInt(next),
  };
}
