import { PositionExpired } from "../domain/ports/job-store.ts";

/**
 * How far somebody has read the jobs: what a snapshot of PostgreSQL's shows. A transaction may commit long after one
 * with a higher id, so each that was open is named. Transaction ids say nothing about another server, as after a
 * failover or a restored backup, nor about a table that was filled anew: `origin` names both. A server that was
 * restarted is another one.
 */
export interface JobPosition {
  origin: string;
  /** As PostgreSQL writes a `pg_snapshot`: `xmin:xmax:open,…`. */
  snapshot: string;
  /** Transactions that were open. */
  open: readonly bigint[];
  /** The first that had not begun. All others are read, or never will be: they were over. */
  next: bigint;
}

/** What {@link POSITION} selects. */
export interface PositionRow {
  origin: string;
  snapshot: string;
}

/** SQL, for a select list: the position of whom reads the jobs in the same statement. */
export const POSITION = `
  concat_ws('-', extract(epoch from pg_postmaster_start_time()), pg_relation_filenode('jobs')) as origin,
  pg_current_snapshot()::text as snapshot`;

/** What {@link POSITION_AND_PURGED} selects. */
export interface LaterPositionRow extends PositionRow {
  purged: string | null;
}

/** The same, with what tells whether an earlier position still leads here. */
export const POSITION_AND_PURGED = `${POSITION},
  (select value from carillon_meta where key = 'jobs_purged_xid') as purged`;

/**
 * SQL: `columns` of the jobs that were changed since a position, for which `open` and `next` stand, and which are
 * `also`. By two looks into the index: between an open transaction and the next there may be all jobs that there are.
 * `first`: no more than so many of each look, the earliest.
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

/** Undefined when deletions after `from` are forgotten, or the server or the table is another one. */
export function positionAfter(
  from: JobPosition,
  rows: readonly LaterPositionRow[],
): JobPosition | undefined {
  const purged = BigInt(anyOf(rows).purged ?? "0");
  const now = positionOf(rows);
  if (now.origin !== from.origin || now.next < from.next || purged >= from.next) return undefined;
  // What is open still has deleted nothing that anybody could have forgotten.
  const forgotten = from.open.some((xid) => xid <= purged && !now.open.includes(xid));
  return forgotten ? undefined : now;
}

/** All rows of a statement have the same position, and there is one however few jobs there are. */
function anyOf<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Error("a statement without its position");
  return row;
}

export function positionText({ origin, snapshot }: JobPosition): string {
  return `${origin}:${snapshot}`;
}

/** Throws PositionExpired for what {@link positionText} has not written. */
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
