-- A claim, a start and a renewal write columns that no index knows: the new version of the row goes beside
-- the old one, and no index is touched (heap-only). Whoever looks for due runs passes over those that are
-- claimed, a few thousand at most and at the head of the order; whoever looks for claims that have run out
-- reads the table, every few seconds.
drop index runs_claimed;
drop index runs_due;
create index runs_due on runs (not_before);
-- Room for a claimed version beside each row; the start takes the place of the first.
alter table runs set (fillfactor = 45);
