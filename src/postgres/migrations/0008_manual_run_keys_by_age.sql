-- Remembered keys go a week later, the oldest first: without it, each batch would read the whole table.
create index manual_run_keys_requested on manual_run_keys (requested_at);
