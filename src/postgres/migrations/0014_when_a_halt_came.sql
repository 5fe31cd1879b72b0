-- When a 410 stopped the schedule, until the scheduler has taken that up: fire times up to then that it had not decided
-- are missed. Null of a halt that a release before this one wrote; one that it took up is behind the position.
alter table job_cursors add column halted_at timestamptz(3);
