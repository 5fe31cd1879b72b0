-- When a run's retry became due. An open circuit moves not_before on, and its deadline counts from before that. Null of
-- a first attempt, and of a retry that a release before this one put down.
alter table runs add column retry_at timestamptz(3);
