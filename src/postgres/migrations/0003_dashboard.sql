-- What the dashboard needs besides what the service keeps anyway: counts over time, invitations, and
-- the brake on guessing passwords.

-- Executions by hour, so that an overview never counts the history. A statement's executions are one
-- upsert an account and outcome. Several workers close runs of one account at once: each server process
-- adds to a row of its own, so that none waits for another's commit.
create table execution_counts (
  account uuid not null,
  -- UTC, whole hours.
  hour timestamptz not null,
  status text not null,
  slot smallint not null,
  entries bigint not null,
  primary key (account, hour, status, slot)
) with (fillfactor = 50);
create index execution_counts_hour on execution_counts (hour);

create function count_executions() returns trigger language plpgsql as $$
begin
  insert into execution_counts as c (account, hour, status, slot, entries)
  select account, date_trunc('hour', executed_at), status, pg_backend_pid() % 16, count(*)
    from added group by 1, 2, 3 order by 1, 2, 3
  on conflict (account, hour, status, slot) do update set entries = c.entries + excluded.entries;
  return null;
end
$$;
create trigger count_executions after insert on executions
  referencing new table as added for each statement execute function count_executions();
insert into execution_counts
  select account, date_trunc('hour', executed_at), status, 0, count(*) from executions group by 1, 2, 3;

-- How passcodes end. The one UPDATE of a verification says it all: right (the code is gone and no try
-- was wrong), wrong, or wrong and burnt. Codes discarded because their mail failed were never active.
create table otp_counts (
  account uuid not null,
  -- UTC
  day date not null,
  outcome text not null check (outcome in ('verified', 'refused', 'burnt')),
  entries bigint not null,
  primary key (account, day, outcome)
) with (fillfactor = 50);
create index otp_counts_day on otp_counts (day);

create function count_otp_outcome() returns trigger language plpgsql as $$
begin
  insert into otp_counts as c (account, day, outcome, entries)
  values (
    new.account, (now() at time zone 'UTC')::date,
    case when new.wrong_tries = old.wrong_tries then 'verified'
         when new.code_hmac is null then 'burnt' else 'refused' end,
    1
  )
  on conflict (account, day, outcome) do update set entries = c.entries + 1;
  return null;
end
$$;
create trigger count_otp_outcome after update on otps for each row
  when (old.id = new.id and old.active
        and (new.wrong_tries > old.wrong_tries or (new.code_hmac is null and not new.active)))
  execute function count_otp_outcome();

create table invitations (
  id uuid primary key default uuidv7(),
  account uuid not null references accounts on delete cascade,
  email text not null,
  role text not null check (role in ('owner', 'member')),
  -- Of 256 random bits: needs no salt and no slow hash.
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- A new invitation takes the place of the old one.
  unique (account, email)
);

-- Failed sign-ins, by a hash of address and client. Never by address alone: nobody could sign in while
-- somebody else guesses.
create table sign_in_failures (
  guesser bytea primary key check (octet_length(guesser) = 32),
  failures integer not null,
  last_at timestamptz not null default now(),
  next_at timestamptz not null default now()
) with (fillfactor = 70);
create index sign_in_failures_last on sign_in_failures (last_at);
