-- Jobs (standalone store), what was decided about them, runs, and their history. The hot tables have
-- no foreign keys: accounts and jobs are referred to by value, and history outlives them.
-- All moments are PostgreSQL's, in whole milliseconds: the program's Instant.

create table carillon_meta (key text primary key, value text not null);
-- The oldest release that may work with this schema. Raised by contracting migrations only.
insert into carillon_meta values ('min_app_version', '0.1.0');
-- Tombstones up to this transaction are gone: older watch positions have to list again.
insert into carillon_meta values ('jobs_purged_xid', '0');

create table jobs (
  uid uuid primary key default uuidv7(),
  account uuid not null,
  id text not null,
  generation integer not null default 1,
  version bigint not null default 1,
  spec jsonb not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  -- Kept for a day as tombstones, for those who watch.
  deleted_at timestamptz(3),
  -- Watchers read by it. Transaction ids are given in order, and a snapshot knows which of them are
  -- still running: so commits out of order hide nothing, as a sequence would.
  changed_xid xid8 not null default pg_current_xact_id()
);
create unique index jobs_live_id on jobs (account, id) where deleted_at is null;
create index jobs_of_account on jobs (account, created_at, id, uid) where deleted_at is null;
create index jobs_by_creation on jobs (created_at, id, uid) where deleted_at is null;
create index jobs_changes on jobs (changed_xid);
create index jobs_tombstones on jobs (deleted_at) where deleted_at is not null;

create table job_cursors (
  job_uid uuid primary key,
  -- Null: the job's namespace is bound to no account.
  account uuid,
  job_id text not null,
  version bigint not null default 1,
  position timestamptz(3) not null,
  schedule_hash text not null,
  generation integer not null,
  startable boolean not null,
  once text not null check (once in ('armed', 'fired', 'completed', 'failed', 'missed')),
  halted_generation integer,
  last_run_now text,
  deleted_at timestamptz(3)
) with (fillfactor = 70);
create index job_cursors_of_job on job_cursors (account, job_id);
create index job_cursors_deleted on job_cursors (deleted_at) where deleted_at is not null;

-- What a run sends is fixed here: all attempts of a run send the same bytes.
create table job_revisions (
  job_uid uuid not null,
  generation integer not null,
  spec jsonb not null,
  primary key (job_uid, generation)
);

-- Unfinished runs only: closing deletes the row in the transaction that records the attempt.
create table runs (
  id uuid primary key default uuidv7(),
  job_uid uuid not null,
  account uuid not null,
  job_id text not null,
  generation integer not null,
  trigger text not null check (trigger in ('schedule', 'manual')),
  key text not null,
  scheduled_at timestamptz(3) not null,
  not_before timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  -- Whom it calls: what limits and circuits are counted by.
  destination text not null,
  -- Already recorded as executions.
  attempts integer not null default 0,
  first_started_at timestamptz(3),
  claim_token uuid,
  worker text,
  lease_until timestamptz,
  started_at timestamptz(3),
  replaced boolean not null default false,
  unique (job_uid, trigger, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index runs_due on runs (not_before, id) where claim_token is null;
create index runs_claimed on runs (worker, lease_until) where claim_token is not null;

-- A manual run's request is remembered after the run is gone: the same key is no second run.
create table manual_run_keys (
  job_uid uuid not null,
  key text not null,
  requested_at timestamptz(3) not null default clock_timestamp(),
  primary key (job_uid, key)
);

create table executions (
  id uuid not null default uuidv7(),
  account uuid not null,
  job_id text not null,
  job_uid uuid not null,
  run_id uuid not null,
  status text not null check (status in ('success', 'failed')),
  http_status integer not null,
  duration_ms integer not null,
  error_message text,
  executed_at timestamptz(3) not null,
  attempt integer not null,
  trigger text not null,
  scheduled_at timestamptz(3) not null
) partition by range (executed_at);
create index executions_of_job on executions (account, job_id, executed_at desc, id desc);

-- The newest of each job's executions, so that lists of jobs need not search the history.
create table job_history (
  job_uid uuid primary key,
  last_schedule_time timestamptz(3),
  last_success_time timestamptz(3),
  last_execution jsonb not null
) with (fillfactor = 50);

create table missed_spans (
  id uuid primary key default uuidv7(),
  account uuid not null,
  job_id text not null,
  job_uid uuid not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  count bigint not null,
  reason text not null,
  recorded_at timestamptz(3) not null default clock_timestamp()
);
create index missed_spans_of_job on missed_spans (account, job_id, last_at desc, id desc);
create index missed_spans_recorded on missed_spans (recorded_at);

-- Makes the partition of the month that holds `moment`, executions_YYYY_MM, unless it is there.
create function executions_ensure_month(moment timestamptz) returns void language plpgsql as $$
declare
  month timestamp := date_trunc('month', moment at time zone 'UTC');
  partition text := 'executions_' || to_char(month, 'YYYY_MM');
begin
  if to_regclass(partition) is null then
    -- Several processes may find it missing at once. The lock brings no catalog news, so to_regclass
    -- may still be blind; "if not exists" looks afresh.
    perform pg_advisory_xact_lock(hashtextextended('carillon.executions_ensure_month', 0));
    if to_regclass(partition) is null then
      execute format(
        'create table if not exists %I partition of executions for values from (%L) to (%L)',
        partition, month at time zone 'UTC', (month + interval '1 month') at time zone 'UTC'
      );
    end if;
  end if;
end
$$;
select executions_ensure_month(now() + n * interval '1 month') from generate_series(0, 2) as n;
