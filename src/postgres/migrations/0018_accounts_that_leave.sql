-- Set while an account is about to move to another namespace: from before its jobs are looked for until the move is made
-- or given up. Meanwhile no job is made for it. The uuid tells one try from another, and its time when it began: a
-- process may die on the way.
alter table accounts add column leaving uuid;
