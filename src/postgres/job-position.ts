import { PositionExpired } from "../domain/ports/job-store.ts";

/**
 * How far somebody has read the jobs: every transaction before `xid` is over, and its changes are read or never will
 * be. Transaction ids say nothing about another server, as after a failover or a restored backup, nor about a table
 * that was filled anew: `origin` names both. A server that was restarted is another one.
 */
export interface JobPosition {
  origin: string;
  xid: bigint;
}

/** What {@link POSITION} selects. */
export interface PositionRow {
  origin: string;
  xid: string;
}

/** SQL, for a select list: the position of whom reads the jobs in the same statement. */
export const POSITION = `
  concat_ws('-', extract(epoch from pg_postmaster_start_time()), pg_relation_filenode('jobs')) as origin,
  pg_snapshot_xmin(pg_current_snapshot())::text as xid`;

/** What {@link POSITION_AND_BOUNDS} selects. */
export interface BoundedPositionRow extends PositionRow {
  end: string;
  purged: string | null;
}

/** The same, with what tells whether an earlier position still leads here. */
export const POSITION_AND_BOUNDS = `${POSITION},
  pg_snapshot_xmax(pg_current_snapshot())::text as end,
  (select value from carillon_meta where key = 'jobs_purged_xid') as purged`;

export function positionOf(rows: readonly PositionRow[]): JobPosition {
  const { origin, xid } = anyOf(rows);
  return { origin, xid: BigInt(xid) };
}

/** Undefined when deletions after `from` are forgotten, or the server or the table is another one. */
export function positionAfter(
  from: JobPosition,
  rows: readonly BoundedPositionRow[],
): JobPosition | undefined {
  const { origin, purged, end } = anyOf(rows);
  if (origin !== from.origin) return undefined;
  if (from.xid <= BigInt(purged ?? "0") || from.xid > BigInt(end)) return undefined;
  return positionOf(rows);
}

/** All rows of a statement have the same position, and there is one however few jobs there are. */
function anyOf<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Error("a statement without its position");
  return row;
}

export function positionText({ origin, xid }: JobPosition): string {
  return `${origin}:${xid}`;
}

/** Throws PositionExpired for what {@link positionText} has not written. */
export function parsePosition(text: string): JobPosition {
  const [, origin, xid] = /^(.+):(\d{1,20})$/.exec(text) ?? [];
  if (origin === undefined || xid === undefined)
    throw new PositionExpired(`not a position of this store: ${text}`);
  return { origin, xid: BigInt(xid) };
}
