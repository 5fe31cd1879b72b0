import { LRUCache } from "lru-cache";
import type { Instant } from "../domain/instant.ts";
import { createJobRoster, type JobRoster } from "../domain/job-roster.ts";
import type { ListedJob } from "../domain/listed-job.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { JobIndex } from "../domain/ports/job-index.ts";
import { isSchedule, NO_SCHEDULE, UNREADABLE } from "../domain/stored-spec.ts";
import {
  changedSince,
  POSITION,
  POSITION_AND_PURGED,
  positionAfter,
  positionOf,
  type JobPosition,
  type LaterPositionRow,
  type PositionRow,
} from "./job-position.ts";
import type { Pool } from "./pool.ts";
import { isUuid } from "./uuid.ts";

/**
 * Jobs that one statement reads. Of each the whole spec is read to get at some of it, and that may have 256 KiB: a
 * statement has not the time for all jobs of an account.
 */
const PAGE = 1_000;
/** How long an account is kept without a look: after that, reading anew is as cheap as catching up. */
const KEPT_MS = 600_000;
/** Bytes of all kept accounts, about 200,000 typical jobs; a larger account is kept alone. */
const MAX_KEPT_BYTES = 100 * 2 ** 20;

/**
 * The index of the PostgreSQL store. Each look catches up with the transactions since the last one, by one
 * statement that reads what has changed: nothing or little. After many changes it reads everything anew.
 */
export function createPostgresJobIndex(options: { pool: Pool; monotonic: Monotonic }): JobIndex {
  const { pool, monotonic } = options;
  const kept = new LRUCache<string, Kept>({
    maxSize: MAX_KEPT_BYTES,
    sizeCalculation: ({ roster }) => Math.min(MAX_KEPT_BYTES, roster.bytes + 1),
    ttl: KEPT_MS,
    ttlResolution: 0,
    perf: { now: monotonic },
  });
  /** The last look under way at each account: the next one begins when it has ended. */
  const looking = new Map<string, Promise<unknown>>();

  async function look(account: string): Promise<readonly ListedJob[]> {
    const known = kept.get(account);
    const current =
      (known && (await caughtUp(pool, account, known))) ?? (await readAll(pool, account));
    kept.set(account, current);
    return current.roster.jobs();
  }

  return {
    async jobs(account) {
      if (!isUuid(account)) return [];
      // Not shared with a look that has begun: it may have missed what the caller has just written.
      const mine = (looking.get(account) ?? Promise.resolve()).then(
        () => look(account),
        () => look(account),
      );
      looking.set(account, mine);
      try {
        return await mine;
      } finally {
        if (looking.get(account) === mine) looking.delete(account);
      }
    },
  };
}

interface Kept {
  roster: JobRoster;
  position: JobPosition;
}

interface ListedRow {
  uid: string;
  account: string;
  id: string;
  generation: number;
  created_at: Instant;
  deleted: boolean;
  name: string;
  schedule: unknown;
  suspend: boolean;
  kind: string | null;
  address: string | null;
}

const COLUMNS = `uid, account, id, generation, created_at, deleted_at is not null as deleted,
  spec ->> 'name' as name, spec -> 'schedule' as schedule, (spec -> 'suspend')::boolean as suspend,
  spec -> 'target' ->> 'kind' as kind,
  coalesce(spec -> 'target' ->> 'url', spec -> 'target' ->> 'to') as address`;

async function readAll(pool: Pool, account: string): Promise<Kept> {
  const roster = createJobRoster();
  let position: JobPosition | undefined;
  let last: ListedRow | undefined;
  for (;;) {
    const rows = await readPage(pool, account, last);
    // That of the first page: the next look also finds what was changed while the others were read.
    position ??= positionOf(rows);
    const found = rows.filter(({ uid }) => uid !== null);
    for (const row of found) roster.put(listedJobOf(row));
    last = found.at(-1);
    if (last === undefined || found.length < PAGE) return { roster, position };
  }
}

/** The jobs that follow `last` by their creation, or a row without one. */
async function readPage(
  pool: Pool,
  account: string,
  last: ListedRow | undefined,
): Promise<(ListedRow & PositionRow)[]> {
  const behind = last ? "and (created_at, id, uid) > ($2::timestamptz, $3, $4::uuid)" : "";
  const { rows } = await pool.query<ListedRow & PositionRow>(
    `select ${POSITION}, j.*
       from (select) as one
       left join (select ${COLUMNS} from jobs where account = $1 and deleted_at is null ${behind}
                   order by created_at, id, uid limit ${PAGE}) as j on true
      order by created_at, id, uid`,
    [account, ...(last ? [new Date(last.created_at), last.id, last.uid] : [])],
  );
  return rows;
}

/** Undefined when the changes since then are not known any more, or are too many for one statement. */
async function caughtUp(
  pool: Pool,
  account: string,
  { roster, position: from }: Kept,
): Promise<Kept | undefined> {
  const since = changedSince(COLUMNS, {
    open: "$2",
    next: "$3",
    also: "account = $1",
    first: PAGE,
  });
  const { rows } = await pool.query<ListedRow & LaterPositionRow>(
    `select ${POSITION_AND_PURGED}, j.*
       from (select) as one
       left join (${since}) as j on true`,
    [account, from.open.map(String), String(from.next)],
  );
  const position = positionAfter(from, rows);
  if (position === undefined || rows.length >= PAGE) return undefined;
  for (const row of rows) {
    if (row.uid === null) continue;
    if (row.deleted) roster.remove(row.uid);
    else roster.put(listedJobOf(row));
  }
  return { roster, position };
}

function listedJobOf(row: ListedRow): ListedJob {
  const { uid, account, id, generation, name, schedule, suspend, kind } = row;
  // The rest of the spec is not read: what else a newer release may have stored does not matter to a list.
  const isReadable = isSchedule(schedule) && (kind === "webhook" || kind === "email");
  return {
    uid,
    account,
    id,
    generation,
    createdAt: row.created_at,
    owner: null,
    spec: isReadable
      ? { name, schedule, suspend }
      : { name, schedule: NO_SCHEDULE, suspend, refusal: UNREADABLE },
    kind: kind === "email" ? kind : "webhook",
    address: row.address ?? "",
  };
}
