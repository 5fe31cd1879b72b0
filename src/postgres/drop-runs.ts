import { isoUtcOrNull, type Instant } from "../domain/instant.ts";
import { DROPPING_JOBS_AT_ONCE } from "../domain/ports/run-ledger.ts";
import type { MissedReason } from "../domain/run.ts";
import { byKey } from "./by-key.ts";
import { UNCLAIMED } from "./claims.ts";
import type { Queryable } from "./pool.ts";

/** Which unstarted runs of a job may not start any more. */
export interface Drop {
  jobUid: string;
  /** The generation that counts from now on. */
  generation: number;
  /** Its destination, for manual runs that move over to it. */
  destination: string;
  /**
   * `others`: scheduled runs of other generations (of higher ones too, after the store was restored); `scheduled`: all
   * scheduled runs; `all`: manual ones too.
   */
  scope: "others" | "scheduled" | "all";
  reason: MissedReason;
  /**
   * Due fire times up to this moment are decided for good, and recorded as missed; others leave no trace, because
   * the scheduler decides them again. Null: nobody decides this job again, so that all due ones are recorded.
   * Manual runs are always recorded.
   */
  decidedUpTo: Instant | null;
  /**
   * All fire times up to `decidedUpTo` count as due, whatever PostgreSQL's clock says now: it may have stepped back
   * since the scheduler, which will not decide them again, read it.
   */
  allDue: boolean;
  /** Keys of fire times that the same change creates anew, or records itself: these are not recorded here. */
  again: readonly string[];
}

/**
 * Manual runs of one job that move with a change of it. Behind an open circuit a million may wait, for which a statement
 * has not the time: the others move when they are to be started.
 */
export const MOVED_AT_ONCE = 2_000;
/** Runs that one statement drops: behind an open circuit a job may have thousands of scheduled ones, a million others. */
export const DROPPED_AT_ONCE = 50_000;

/**
 * Drops all unstarted runs of jobs that are over, as `dropUnstarted` does. `some`: stops after so many runs as a
 * statement drops; false: there may be more.
 */
export async function dropAll(
  client: Queryable,
  jobUids: readonly string[],
  reason: "deleted" | "account_deleted",
  { some } = { some: false },
): Promise<boolean> {
  const nothing = { generation: 0, destination: "", decidedUpTo: null, allDue: false, again: [] };
  let dropped = 0;
  for (let first = 0; first < jobUids.length; first += DROPPING_JOBS_AT_ONCE) {
    const drops = jobUids
      .slice(first, first + DROPPING_JOBS_AT_ONCE)
      .map((jobUid) => ({ jobUid, scope: "all" as const, reason, ...nothing }));
    for (let more = true; more;) {
      if (some && dropped >= DROPPED_AT_ONCE) return false;
      const { doomed } = await dropSome(client, drops);
      dropped += doomed;
      more = doomed >= DROPPED_AT_ONCE;
    }
  }
  return true;
}

/**
 * Deletes these runs in the caller's transaction, whose plans are fixed. A start that was committed first wins, because
 * both write the run's row. Fire times that were decided for good and never attempted become missed spans, one for each
 * job and statement. A manual run that was never attempted moves to the new generation, because it was asked of the job
 * and not of a revision; a claim of it becomes void. Beyond `MOVED_AT_ONCE` they stay as they are until their start.
 * What becomes of a one-time job: docs/decisions/0023, "edit, attempted", "pause", "deleted" and "account deleted".
 */
export async function dropUnstarted(client: Queryable, drops: readonly Drop[]): Promise<Dropped> {
  const all: Dropped = { settled: [], moved: [] };
  if (drops.length === 0) return all;
  for (let more = true; more;) {
    const { settled, moved, doomed } = await dropSome(client, drops);
    all.settled.push(...settled);
    all.moved.push(...moved);
    more = doomed >= DROPPED_AT_ONCE;
  }
  return all;
}

/** `doomed`: how many runs it found to be dropped; there may be more than `DROPPED_AT_ONCE`. */
async function dropSome(
  client: Queryable,
  drops: readonly Drop[],
): Promise<Dropped & { doomed: number }> {
  const { rows } = await client.query<{
    job_uid: string | null;
    moved: Instant | null;
    doomed: number;
  }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[],
                            $6::timestamptz[], $7::boolean[], $8::text[])
         as i(job_uid, generation, destination, scope, reason, decided_up_to, all_due, again)
     ), theirs as materialized (
       (select r.id, i.*, true as doomed from input i cross join lateral (
          select id from runs
           where ${byKey("job_uid", "i.job_uid")} and trigger = 'schedule' and started_at is null
             and (i.scope <> 'others' or generation <> i.generation)
          union all
          select id from runs
           where ${byKey("job_uid", "i.job_uid")} and trigger = 'manual' and started_at is null
             and i.scope = 'all'
        ) r limit ${DROPPED_AT_ONCE})
       union all
       select r.id, i.*, false from input i cross join lateral (
         select id from runs
          where ${byKey("job_uid", "i.job_uid")} and trigger = 'manual' and started_at is null
            and i.scope <> 'all' and generation <> i.generation
          limit ${MOVED_AT_ONCE}
       ) r
     ), affected as materialized (
       select t.id, t.job_uid, t.generation, t.destination, t.reason, t.decided_up_to, t.all_due, t.again,
              -- An attempted one, whose tries must all send the same, does not move.
              t.doomed or (r.attempts > 0 and r.generation <> t.generation) as doomed,
              -- Told here: the update below would look for what it names itself, among the runs of all jobs.
              r.trigger = 'manual' and r.generation <> t.generation as moves
         from runs r join theirs t on ${byKey("r.id", "t.id")}
        where r.started_at is null order by t.id for update of r
     ), moved as (
       update runs r
          set generation = a.generation, destination = a.destination,
              ${UNCLAIMED}
         from affected a
        where ${byKey("r.id", "a.id")} and a.moves and not a.doomed
       returning r.not_before
     ), dropped as (
       delete from runs r using affected a where ${byKey("r.id", "a.id")} and a.doomed
       returning r.id, r.account, r.job_id, r.job_uid, r.generation, r.trigger, r.key, r.attempts,
                 r.scheduled_at, a.reason, a.decided_up_to, a.all_due, a.again
     ), ended as (
       update job_cursors c set ${droppedAs("d")} from dropped d
        where ${byKey("c.job_uid", "d.job_uid")} and d.trigger = 'schedule' and d.again = ''
          and (d.attempts > 0 or d.reason <> 'deleted') and ${awaits("d")}
       returning c.job_uid, d.id, c.once
     ), recorded as (
       insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select account, job_id, job_uid, min(scheduled_at), max(scheduled_at), count(*), reason
         from dropped
        where attempts = 0
          and (trigger = 'manual' or scheduled_at <= case when all_due then decided_up_to
                                                          else least(decided_up_to, clock_timestamp()) end)
          and not (trigger = 'schedule' and key = any(string_to_array(again, ' ')))
          and id not in (select id from ended where once = 'armed')
        group by account, job_id, job_uid, reason
     )
     select job_uid, null as moved, 0 as doomed from ended
     union all
     select null, not_before, 0 from moved
     union all
     select null, null, count(*) from theirs where doomed`,
    [
      drops.map((drop) => drop.jobUid),
      drops.map((drop) => drop.generation),
      drops.map((drop) => drop.destination),
      drops.map((drop) => drop.scope),
      drops.map((drop) => drop.reason),
      drops.map(({ decidedUpTo }) => isoUtcOrNull(decidedUpTo)),
      drops.map((drop) => drop.allDue),
      drops.map((drop) => drop.again.join(" ")),
    ],
  );
  return {
    settled: rows.flatMap((row) => row.job_uid ?? []),
    moved: rows.flatMap((row) => row.moved ?? []),
    doomed: rows.reduce((sum, row) => sum + row.doomed, 0),
  };
}

export interface Dropped {
  /** Uids of one-time jobs that have failed or are armed again: their cursors were written. */
  settled: string[];
  /** The notBefore of each manual run that moved and must be claimed anew. */
  moved: Instant[];
}

/** SQL: the time of a one-time job, given its cursor `c`. */
export const ONCE_AT = `(
    select to_timestamp((v.spec #>> '{schedule,at}')::float8 / 1000)::timestamptz(3) from job_revisions v
     where ${byKey("v.job_uid", "c.job_uid")} and v.generation = c.generation)`;

/**
 * SQL, for cursor `c` and a scheduled run of its job: whether this is the run that a one-time job awaits, of those that
 * it may have (docs/decisions/0023, "outcome" and "not awaited").
 */
export function awaits(run: string): string {
  return `(c.once = 'fired'
    and (c.generation = ${run}.generation or ${run}.scheduled_at = ${ONCE_AT}))`;
}

/**
 * SQL: what is set in cursor `c` when the run that it awaits is dropped (docs/decisions/0023, "refused" and "refused
 * later"). The scheduler decides the time of a job that is armed again once it may run, and records then why it does
 * not run, if it does not.
 */
export function droppedAs(run: string): string {
  return `version = c.version + 1,
    once = case ${run}.attempts when 0 then 'armed' else 'failed' end,
    position = case ${run}.attempts
      when 0 then least(c.position, ${run}.scheduled_at - interval '1 millisecond') else c.position end`;
}

/** For runs that a newer run replaces: started ones are marked for their workers, the others are dropped. */
export async function dropReplaced(client: Queryable, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await client.query(
    `with affected as materialized (
       select id, started_at is not null as started from runs
        where id = any($1::uuid[]) order by id for update
     ), marked as (
       update runs r set replaced = true
         from affected a where ${byKey("r.id", "a.id")} and a.started
     ), dropped as (
       delete from runs r using affected a where ${byKey("r.id", "a.id")} and not a.started
       returning r.*
     )
     insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
     select account, job_id, job_uid, min(scheduled_at), max(scheduled_at), count(*), 'overlap'
       from dropped where attempts = 0 group by account, job_id, job_uid`,
    [ids],
  );
}
