create table carillon_meta (key text primary key, value text not null);
