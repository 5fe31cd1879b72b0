-- One transaction may have changed as many jobs as an account has. Who watches reads them page by page, in this order: each
-- page begins where the one before it ended.
create index jobs_changes_in_order on jobs (changed_xid, uid);
drop index jobs_changes;
