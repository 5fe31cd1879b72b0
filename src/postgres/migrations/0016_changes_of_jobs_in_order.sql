-- One transaction may have changed as many jobs as an account has. Who watches reads them page by page, in this order: each
-- page begins where the one before it ended.
-- The old index goes first, which takes the whole table. After making the new one that would be a deadlock with whoever
-- holds the table to read, and waits meanwhile to write.
drop index jobs_changes;
create index jobs_changes_in_order on jobs (changed_xid, uid);
