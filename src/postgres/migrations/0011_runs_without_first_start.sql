-- Read by nobody, and since before the first release written by nobody.
alter table runs drop column first_started_at;
