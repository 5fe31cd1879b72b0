-- The history has no key, and a publication that takes deletions, as of all tables for a feed of changes or an upgrade
-- by logical replication, refuses those from a table without one: by all of its columns a row is known as well.
alter table executions replica identity full;
do $$
declare
  partition regclass;
begin
  for partition in select inhrelid from pg_inherits where inhparent = 'executions'::regclass loop
    execute format('alter table %s replica identity full', partition);
  end loop;
end
$$;

-- As before (migration 0002), and so with the months to come.
create or replace function executions_ensure_month(moment timestamptz) returns void language plpgsql as $$
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
      execute format('alter table %I replica identity full', partition);
    end if;
  end if;
end
$$;
