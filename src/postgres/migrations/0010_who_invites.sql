-- Null: made before this was kept. Whoever is removed takes their open invitations along.
alter table invitations add column invited_by uuid references users on delete cascade;
create index invitations_invited_by on invitations (invited_by);
