-- `GENERATION:FORM:HASH` of the spec that was decided on: a store that was restored gives a generation's number to a
-- second spec. Null until the next write, and of an older generation when a release before this one wrote.
alter table job_cursors add column revision text;
