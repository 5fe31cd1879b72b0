import { destinationKey } from "../domain/destination.ts";
import { isoUtc, isoUtcOrNull } from "../domain/instant.ts";
import type { JobOutline } from "../domain/job-outline.ts";
import type { LedgerChange, RunLedger } from "../domain/ports/run-ledger.ts";
import { sameRevision } from "../domain/revision.ts";
import type { MissedReason, NewRun } from "../domain/run.ts";
import { alreadyAttempted, keepStarted, ofFireTime, settleAlreadyRun } from "./already-run.ts";
import { byKey } from "./by-key.ts";
import { dropReplaced, dropUnstarted, type Drop } from "./drop-runs.ts";
import { hideLastExecutions } from "./hide-last-executions.ts";
import { notifyJobs } from "./job-notifications.ts";
import { CURSORS_CHANNEL } from "./notifications.ts";
import { transaction, type Pool, type Queryable } from "./pool.ts";
import { withContentErrors } from "./content-errors.ts";
import { notifyRuns } from "./run-notifications.ts";
import { storeRevisions } from "./store-revisions.ts";

/** `RunLedger.apply`. */
export async function applyChanges(
  pool: Pool,
  changes: readonly LedgerChange[],
): ReturnType<RunLedger["apply"]> {
  if (changes.length === 0) return { conflicts: [], created: 0 };
  // All lock in the same order, so that two leaders wait for each other and do not deadlock.
  const sorted = [...changes].sort((a, b) => (a.job.uid < b.job.uid ? -1 : 1));
  return withContentErrors(() =>
    transaction(pool, async (client) => {
      await lockRuns(client, sorted);
      const won = await advanceCursors(client, sorted);
      const winners = sorted.filter((change) => won.has(change.job.uid));
      await hideLastExecutions(client, winners);
      await storeRevisions(client, winners);
      // Before the inserts: a fire time that was taken back may be created anew right here.
      const dropped = await dropUnstarted(client, winners.flatMap(dropOf));
      // Some of the runs to be dropped may have been started meanwhile.
      const kept = await keepStarted(client, winners);
      // One-time jobs that were put back to a time at which they had run: no run is created, and none missed.
      const attempted = await alreadyAttempted(client, winners);
      const notAttempted = winners.filter(({ job }) => !attempted.has(job.uid));
      await dropReplaced(
        client,
        notAttempted.flatMap(({ replace }) => replace),
      );
      const created = await insertRuns(client, winners, attempted);
      const requested = winners.flatMap(({ create }) => create);
      const settled =
        created < requested.length || attempted.size > 0
          ? await settleAlreadyRun(client, winners, attempted)
          : [];
      // The cursors of these jobs have a newer version than the caller thinks, or the caller is not the leader.
      await notifyJobs(client, CURSORS_CHANNEL, [
        ...dropped.settled,
        ...kept,
        ...settled,
        ...winners.flatMap(liftedBy),
      ]);
      await insertMissed(client, notAttempted);
      const starts = created > 0 ? requested.map(({ scheduledAt }) => scheduledAt) : [];
      await notifyRuns(client, [...starts, ...dropped.moved]);
      const reconcileAgain = sorted.filter(
        ({ job, missed }) => !won.has(job.uid) || (attempted.has(job.uid) && missed.length > 0),
      );
      return { conflicts: reconcileAgain.map(({ job }) => job.uid), created };
    }),
  );
}

/**
 * The job, if the change lifts its halt, as a gateway does. Told in the transaction: where the answer to that is lost,
 * the next request finds no halt, and nobody else would tell the leader.
 */
function liftedBy({ job, from, to }: LedgerChange): string[] {
  const halted = (from?.haltedGeneration ?? null) !== null;
  return halted && to.haltedGeneration === null ? [job.uid] : [];
}

/** The compare-and-set that makes runs unique. Returns the uids whose cursor was as it had been read. */
async function advanceCursors(
  client: Queryable,
  changes: readonly LedgerChange[],
): Promise<Set<string>> {
  const column = <T>(of: (change: LedgerChange) => T) => changes.map(of);
  const { rows } = await client.query<{ job_uid: string }>(
    `with input as materialized (
       select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::timestamptz[],
                            $6::text[], $7::int[], $8::boolean[], $9::text[], $10::int[],
                            $11::text[], $12::boolean[], $13::text[], $14::timestamptz[])
         as i(job_uid, account, job_id, from_version, position, schedule_hash, generation,
              startable, once, halted_generation, last_run_now, deleted, revision, halted_at)
     ), locked as materialized (
       select i.* from job_cursors c join input i on ${byKey("c.job_uid", "i.job_uid")}
        where c.version = i.from_version order by i.job_uid for update of c
     ), updated as (
       update job_cursors c
          set account = i.account, job_id = i.job_id, version = c.version + 1,
              position = i.position, schedule_hash = i.schedule_hash, generation = i.generation,
              revision = i.revision, startable = i.startable, once = i.once,
              halted_generation = i.halted_generation, halted_at = i.halted_at,
              last_run_now = i.last_run_now,
              deleted_at = case when i.deleted then coalesce(c.deleted_at, clock_timestamp()) end
         from locked i
        where ${byKey("c.job_uid", "i.job_uid")} and c.version = i.from_version
       returning c.job_uid
     ), inserted as (
       insert into job_cursors
         (job_uid, account, job_id, position, schedule_hash, generation, startable, once,
          halted_generation, last_run_now, deleted_at, revision, halted_at)
       select job_uid, account, job_id, position, schedule_hash, generation, startable, once,
              halted_generation, last_run_now, case when deleted then clock_timestamp() end,
              revision, halted_at
         from input where from_version is null
       on conflict (job_uid) do nothing
       returning job_uid
     )
     select job_uid from updated union all select job_uid from inserted`,
    [
      column(({ job }) => job.uid),
      column(({ to }) => to.account),
      column(({ job }) => job.id),
      column(({ from }) => from?.version ?? null),
      column(({ to }) => isoUtc(to.position)),
      column(({ to }) => to.scheduleHash),
      column(({ to }) => to.generation),
      column(({ to }) => to.startable),
      column(({ to }) => to.once),
      column(({ to }) => to.haltedGeneration),
      column(({ to }) => to.lastRunNow),
      column(({ to }) => to.deleted),
      column(({ to }) => to.revision),
      column(({ to }) => isoUtcOrNull(to.haltedAt)),
    ],
  );
  return new Set(rows.map((row) => row.job_uid));
}

/** Which unstarted runs cannot start any more because of this change, and what is recorded about them. */
function dropOf(change: LedgerChange): Drop[] {
  const { job, from, to } = change;
  const impossible = to.deleted || job.account === null;
  if (from === undefined && !impossible) return [];
  const same = from !== undefined && sameRevision(from, to);
  if (!impossible && to.startable && same) return [];
  // Another spec under the same number: its runs cannot be told apart by their generation, so that all are dropped.
  const others = to.startable && from?.generation !== to.generation;
  return [
    {
      jobUid: job.uid,
      generation: to.generation,
      destination: job.account === null ? "" : destinationKey(job.account, job.spec.target),
      scope: impossible ? "all" : others ? "others" : "scheduled",
      reason: dropReason(job, to),
      decidedUpTo: to.deleted ? null : to.position,
      // With the same schedule, a position beyond now covers only fire times that this change creates. Otherwise it
      // says less.
      allDue: !impossible && to.startable && from?.scheduleHash === to.scheduleHash,
      again: decidedHere(change),
    },
  ];
}

/**
 * Keys of the fire times for which the change itself creates a run, or which it records as missed (of a one-time
 * job).
 */
function decidedHere({ job, create, missed }: LedgerChange): string[] {
  const created = create.flatMap((run) => (run.trigger === "schedule" ? [run.key] : []));
  if (job.spec.schedule.kind === "cron") return created;
  return [...created, ...missed.map(({ first }) => isoUtc(first))];
}

function dropReason(job: JobOutline, to: LedgerChange["to"]): MissedReason {
  if (to.deleted) return "deleted";
  if (job.account === null) return "account_deleted";
  return to.startable ? "superseded" : "paused";
}

/**
 * Locks runs before the cursors are locked, in the order in which closing locks them: runs that are to be created
 * anew, and runs that are replaced. Such a run may be closing right now, in a transaction that the snapshot of a
 * later statement would not see yet. Locking its row makes one of the two wait for the other.
 */
async function lockRuns(client: Queryable, changes: readonly LedgerChange[]): Promise<void> {
  const recreated = changes.flatMap(({ job, from, to, create }) =>
    from === undefined || (sameRevision(from, to) && from.startable === to.startable)
      ? []
      : create.map((run) => ({ uid: job.uid, ...run })),
  );
  const replaced = changes.flatMap(({ replace }) => replace);
  if (recreated.length === 0 && replaced.length === 0) return;
  await client.query(
    `with theirs as materialized (
       select r.id from runs r
         join unnest($1::uuid[], $2::text[], $3::text[]) as i(job_uid, trigger, key)
           on ${byKey("r.job_uid", "i.job_uid")} and r.trigger = i.trigger and r.key = i.key
       union all
       select id from unnest($4::uuid[]) as id
     )
     select from runs r join theirs t on ${byKey("r.id", "t.id")} order by t.id for update of r`,
    [
      recreated.map(({ uid }) => uid),
      recreated.map(({ trigger }) => trigger),
      recreated.map(({ key }) => key),
      replaced,
    ],
  );
}

async function insertRuns(
  client: Queryable,
  changes: readonly LedgerChange[],
  attempted: ReadonlySet<string>,
): Promise<number> {
  const runs: { account: string; change: LedgerChange; run: NewRun; destination: string }[] = [];
  for (const change of changes) {
    const { account, spec } = change.job;
    if (account === null || change.create.length === 0) continue;
    const destination = destinationKey(account, spec.target);
    for (const run of change.create)
      if (run.trigger === "manual" || !attempted.has(change.job.uid))
        runs.push({ account, change, run, destination });
  }
  if (runs.length === 0) return 0;
  const values = [
    runs.map(({ change }) => change.job.uid),
    runs.map(({ account }) => account),
    runs.map(({ change }) => change.job.id),
    runs.map(({ change }) => change.to.generation),
    runs.map(({ run }) => run.trigger),
    runs.map(({ run }) => run.key),
    runs.map(({ run }) => isoUtc(run.scheduledAt)),
    runs.map(({ destination }) => destination),
  ];
  const { rowCount } = await client.query(
    `with ${NEW_RUNS}, asked as (
       insert into manual_run_keys (job_uid, key)
       select job_uid, key from input where trigger = 'manual'
       on conflict do nothing returning job_uid, key
     )
     ${insertNew(`(trigger = 'manual' and (job_uid, key) in (select job_uid, key from asked))
         -- Prepared for the older generation, and delivered before this change got here.
         or (trigger = 'schedule' and not exists (
              select from job_cursors c
               where ${byKey("c.job_uid", "i.job_uid")} and c.last_schedule_time >= i.scheduled_at))`)}`,
    values,
  );
  const created = rowCount ?? 0;
  if (created === runs.length) return created;
  // The others may have fire times before one that has run: a one-time job was moved back, or the clock has stepped
  // back and the job was changed. Whether they have run themselves is found in the executions.
  const earlier = await client.query(
    `with ${NEW_RUNS}
     ${insertNew(`trigger = 'schedule' and exists (
              select from job_cursors c
               where ${byKey("c.job_uid", "i.job_uid")} and c.last_schedule_time > i.scheduled_at)
         -- Not "not exists": that could become a join with all executions.
         and exists (
              select from executions e where ${ofFireTime("i", "i.scheduled_at")}) is not true`)}`,
    values,
  );
  return created + (earlier.rowCount ?? 0);
}

const NEW_RUNS = `input as materialized (
       select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[],
                            $7::timestamptz[], $8::text[])
         as i(job_uid, account, job_id, generation, trigger, key, scheduled_at, destination)
     )`;

/** SQL: inserts the runs of input `i` for which the condition holds, unless a run of this identity exists. */
function insertNew(condition: string): string {
  return `insert into runs
       (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
     select job_uid, account, job_id, generation, trigger, key, scheduled_at, scheduled_at, destination
       from input i
      where ${condition}
     on conflict (job_uid, trigger, key) do nothing`;
}

async function insertMissed(client: Queryable, changes: readonly LedgerChange[]): Promise<void> {
  const spans = changes.flatMap(({ job, missed }) =>
    job.account === null ? [] : missed.map((span) => ({ job, account: job.account, span })),
  );
  if (spans.length === 0) return;
  await client.query(
    `insert into missed_spans (account, job_id, job_uid, first_at, last_at, count, reason)
     select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::timestamptz[], $5::timestamptz[],
                          $6::bigint[], $7::text[])`,
    [
      spans.map(({ account }) => account),
      spans.map(({ job }) => job.id),
      spans.map(({ job }) => job.uid),
      spans.map(({ span }) => isoUtc(span.first)),
      spans.map(({ span }) => isoUtc(span.last)),
      spans.map(({ span }) => span.count),
      spans.map(({ span }) => span.reason),
    ],
  );
}
