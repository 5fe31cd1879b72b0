-- A revision is written once, and read as a whole by each claim of its runs: as text it is sent as it lies.
alter table job_revisions alter column spec type json using spec::text::json;
