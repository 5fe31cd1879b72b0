-- The last execution in columns of its own, called as in `executions`: making and taking apart a document
-- for each run was a tenth of what recording it costs. No release has had the document.
alter table job_history
  add column id uuid,
  add column job_id text,
  add column run_id uuid,
  add column status text,
  add column http_status integer,
  add column duration_ms integer,
  add column error_message text,
  add column executed_at timestamptz(3),
  add column attempt integer,
  add column trigger text,
  add column scheduled_at timestamptz(3);
update job_history h
   set id = (e ->> 'id')::uuid, job_id = e ->> 'job_id', run_id = (e ->> 'run_id')::uuid,
       status = e ->> 'status', http_status = (e ->> 'http_status')::integer,
       duration_ms = (e ->> 'duration_ms')::integer, error_message = e ->> 'error_message',
       executed_at = to_timestamp((e ->> 'executed_at')::float8 / 1000),
       attempt = (e ->> 'attempt')::integer, trigger = e ->> 'trigger',
       scheduled_at = to_timestamp((e ->> 'scheduled_at')::float8 / 1000)
  from (select job_uid, last_execution as e from job_history) as old
 where old.job_uid = h.job_uid;
alter table job_history
  alter column id set not null,
  alter column job_id set not null,
  alter column run_id set not null,
  alter column status set not null,
  alter column http_status set not null,
  alter column duration_ms set not null,
  alter column executed_at set not null,
  alter column attempt set not null,
  alter column trigger set not null,
  alter column scheduled_at set not null,
  drop column last_execution;
