-- The last execution beside the cursor, whose row the closing of a one-time writes anyway: a row of its own was a
-- second write, and one into its index, for each job that runs once. No release has had the table.
alter table job_cursors
  add column last_schedule_time timestamptz(3),
  add column last_success_time timestamptz(3),
  -- This and what follows is called as in `executions`, and null (error_message apart) while nothing was attempted.
  add column last_execution_id uuid,
  add column last_run_id uuid,
  add column last_status text,
  add column last_http_status integer,
  add column last_duration_ms integer,
  add column last_error_message text,
  add column last_executed_at timestamptz(3),
  add column last_attempt integer,
  add column last_trigger text,
  add column last_scheduled_at timestamptz(3),
  -- Room for the version with a last execution beside the one without: then no index is touched (heap-only). None may
  -- contain what a closing writes.
  set (fillfactor = 40);
update job_cursors c
   set last_schedule_time = h.last_schedule_time, last_success_time = h.last_success_time,
       last_execution_id = h.id, last_run_id = h.run_id, last_status = h.status,
       last_http_status = h.http_status, last_duration_ms = h.duration_ms,
       last_error_message = h.error_message, last_executed_at = h.executed_at,
       last_attempt = h.attempt, last_trigger = h.trigger, last_scheduled_at = h.scheduled_at
  from job_history h where h.job_uid = c.job_uid;
drop table job_history;
