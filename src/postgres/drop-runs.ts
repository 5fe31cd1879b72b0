import type { Instant } from "../domain/instant.ts";
import type { MissedReason } from "../domain/run.ts";
import { byKey } from "./by-key.ts";
import type { Queryable } from "./pool.ts";
import { timestamp } from "./rows.ts";

/** Which unstarted runs of a job may not start any more. */
export interface Drop {
  jobUid: string;
  /** The generation that counts from now on. */
  generation: number;
  /** Its destination, for manual runs that move over to it. */
  destination: string;
  /** `older`: scheduled runs of older generations; `scheduled`: all scheduled runs; `all`: manual ones too. */
  scope: "older" | "scheduled" | "all";
  reason: MissedReason;
  /**
   * Fire times up to here are decided for good and recorded as missed; later ones leave no trace,
   * because the scheduler decides them again. Null: up to now, for nobody decides them again.
   */
  decidedUpTo: Instant | null;
  /** Keys of scheduled runs that are created anew in the same change: they are not missed. */
  again: readonly string[];
}

/**
 * Deletes them in the caller's transaction, whose plans are fixed; a start that was committed first wins,
 * because both write the run's row. Fire times that were decided for good and never attempted become missed spans, one a
 * job. A manual run never attempted moves to the new generation: it was asked of the
 * job, not of a revision, and a claim taken on the old one is void. A one-time whose retries end here
 * has failed. Returns the jobs that ended so: their cursors were written.
 */
export async function dropUnstarted(client: Queryable, drops: readonly Drop[]): Promise<string[]> {
  if (drops.length === 0) return [];
  const { rows } = await client.query<{ job_uid: string }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[],
                            $6::timestamptz[], $7::text[])
         as i(job_uid, generation, destination, scope, reason, decided_up_to, again)
     ), theirs as materialized (
       select r.id, i.* from runs r join input i on ${byKey("r.job_uid", "i.job_uid")}
        where r.started_at is null
     ), affected as materialized (
       select t.*,
              t.scope = 'all'
              or (r.trigger = 'schedule' and (t.scope = 'scheduled' or r.generation < t.generation))
              or (r.trigger = 'manual' and r.attempts > 0 and r.generation < t.generation) as doomed
         from runs r join theirs t on ${byKey("r.id", "t.id")}
        where r.started_at is null order by t.id for update of r
     ), moved as (
       update runs r
          set generation = a.generation, destination = a.destination,
              claim_token = null, worker = null, lease_until = null
         from affected a
        where ${byKey("r.id", "a.id")} and not a.doomed and r.trigger = 'manual' and r.generation < a.generation
     ), dropped as (
       delete from runs r using affected a where ${byKey("r.id", "a.id")} and a.doomed
       returning r.account, r.job_id, r.job_uid, r.trigger, r.key, r.attempts, r.scheduled_at,
                 a.reason, a.decided_up_to, a.again
     ), ended as (
       update job_cursors c set once = 'failed', version = c.version + 1
         from (select distinct job_uid from dropped where trigger = 'schedule' and attempts > 0) d
        where ${byKey("c.job_uid", "d.job_uid")} and c.once = 'fired'
       returning c.job_uid
     ), recorded as (
       insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
       select account, job_id, job_uid, min(scheduled_at), max(scheduled_at), count(*), reason
         from dropped
        where attempts = 0 and scheduled_at <= coalesce(decided_up_to, clock_timestamp())
          and not (trigger = 'schedule' and key = any(string_to_array(again, ' ')))
        group by account, job_id, job_uid, reason
     )
     select job_uid from ended`,
    [
      drops.map((drop) => drop.jobUid),
      drops.map((drop) => drop.generation),
      drops.map((drop) => drop.destination),
      drops.map((drop) => drop.scope),
      drops.map((drop) => drop.reason),
      drops.map(({ decidedUpTo }) => (decidedUpTo === null ? null : timestamp(decidedUpTo))),
      drops.map((drop) => drop.again.join(" ")),
    ],
  );
  return rows.map((row) => row.job_uid);
}

/** A newer run takes their place: started ones are marked for their workers, the others are dropped. */
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
