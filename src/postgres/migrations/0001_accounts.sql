-- Accounts and what belongs to them: credentials, SMTP settings, signing secrets, dashboard users,
-- the email log, one-time passcodes, idempotency keys and published circuit states.
-- Every moment is taken from the server's clock.

create table accounts (
  id uuid primary key default uuidv7(),
  name text not null,
  -- The namespace this account is bound to, and its incarnation. The uid is null only between an
  -- operator's binding by name and the first time a process sees that namespace.
  namespace text,
  namespace_uid text,
  retention_days integer check (retention_days >= 1),
  time_zone text not null default 'UTC',
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
-- A deleted account frees its name and its namespace.
create unique index accounts_live_name on accounts (lower(name)) where deleted_at is null;
create unique index accounts_live_namespace on accounts (namespace)
  where deleted_at is null and namespace is not null;
create index accounts_deleted on accounts (deleted_at) where deleted_at is not null;

create table account_destinations (
  account uuid not null references accounts on delete cascade,
  rule text not null,
  created_at timestamptz not null default now(),
  primary key (account, rule)
);

create table api_keys (
  id uuid primary key default uuidv7(),
  account uuid not null references accounts on delete cascade,
  label text not null,
  prefix text not null,
  -- SHA-256 of the raw key; a key has 192 random bits, so it needs no salt and no slow hash.
  hash bytea not null unique check (octet_length(hash) = 32),
  created_at timestamptz not null default now(),
  last_used_at timestamptz
) with (fillfactor = 80);
create index api_keys_account on api_keys (account);

create table smtp_settings (
  account uuid primary key references accounts on delete cascade,
  host text not null,
  port integer not null check (port between 1 and 65535),
  username text,
  -- Sealed: key id, a colon, base64 of nonce, ciphertext and tag.
  password text,
  from_address text not null,
  tls text not null check (tls in ('starttls', 'implicit', 'none')),
  revision uuid not null default uuidv7()
);

create table signing_secrets (
  id uuid primary key,
  account uuid not null references accounts on delete cascade,
  -- Sealed like smtp_settings.password.
  secret text not null,
  created_at timestamptz not null default now(),
  -- Null: the newest. Otherwise it goes on signing until then.
  valid_until timestamptz
);
-- One newest secret an account, however many processes make the first one at once.
create unique index signing_secrets_newest on signing_secrets (account) where valid_until is null;
create index signing_secrets_account on signing_secrets (account);

create table users (
  id uuid primary key default uuidv7(),
  account uuid not null references accounts on delete cascade,
  email text not null unique,
  -- PHC string: $argon2id$v=19$m=…,t=…,p=…$salt$hash
  password_hash text not null,
  role text not null check (role in ('owner', 'member')),
  admin boolean not null default false,
  created_at timestamptz not null default now()
);
create index users_account on users (account);

create table sessions (
  id uuid primary key default uuidv7(),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  user_id uuid not null references users on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index sessions_user on sessions (user_id);
create index sessions_expiry on sessions (expires_at);

-- The email log has no foreign key to accounts: the key-share lock of each row would make every
-- sending process meet on one account row. Purging an account deletes its log explicitly.
create table email_log (
  id uuid not null,
  account uuid not null,
  kind text not null check (kind in ('email', 'otp', 'job')),
  recipient text not null,
  subject text not null,
  status text not null check (status in ('sent', 'failed')),
  error_message text,
  sent_at timestamptz not null,
  -- Read backwards, this is the order of the list.
  primary key (account, sent_at, id)
) partition by range (sent_at);
create index email_log_filtered on email_log (account, kind, status, sent_at, id);
create index email_log_recipient on email_log (account, lower(recipient), sent_at, id);

-- Exact totals without counting: kept in the transaction that writes or removes the rows.
create table email_log_counts (
  account uuid not null,
  -- UTC
  day date not null,
  kind text not null,
  status text not null,
  entries bigint not null,
  primary key (account, day, kind, status)
) with (fillfactor = 50);
create index email_log_counts_day on email_log_counts (day);

-- Makes the partition that holds `moment`, named email_log_YYYY_MM, unless it is there.
create function email_log_ensure_month(moment timestamptz) returns void language plpgsql as $$
declare
  first_day timestamp := date_trunc('month', moment at time zone 'UTC');
  partition text := 'email_log_' || to_char(first_day, 'YYYY_MM');
begin
  if to_regclass(partition) is not null then
    return;
  end if;
  -- Several processes find it missing at once: the first makes it, the others look again. An advisory
  -- lock brings no catalog news, so to_regclass may still be blind; "if not exists" looks afresh.
  perform pg_advisory_xact_lock(hashtextextended('carillon.email_log_ensure_month', 0));
  if to_regclass(partition) is null then
    execute format(
      'create table if not exists %I partition of email_log for values from (%L) to (%L)',
      partition,
      to_char(first_day, 'YYYY-MM-DD') || ' 00:00:00+00',
      to_char(first_day + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00'
    );
  end if;
end
$$;
select email_log_ensure_month(now());
select email_log_ensure_month(now() + interval '1 month');

-- One row an address: its newest code and what counts against the address. Everything that must be
-- decided together is in one row, so that its row lock decides races.
create table otps (
  account uuid not null,
  address text not null,
  -- The newest issue: activate and discard of an older one find nothing.
  id uuid not null unique,
  -- Null once used, burned or discarded.
  code_hmac bytea,
  active boolean not null,
  expires_at timestamptz not null,
  -- Against this code.
  wrong_tries integer not null default 0,
  -- Moments, those of the last hour at most; a new code does not reset them.
  failures timestamptz[] not null default '{}',
  sends timestamptz[] not null,
  updated_at timestamptz not null default now(),
  primary key (account, address)
) with (fillfactor = 70);
create index otps_updated on otps (updated_at);

create function moments_within(moments timestamptz[], period interval) returns timestamptz[]
language sql stable as $$
  select array(select m from unnest(moments) as m where m > now() - period order by m)
$$;

create table idempotency_keys (
  account uuid not null,
  scope text not null,
  key text not null,
  token uuid not null unique,
  fingerprint text not null,
  started_at timestamptz not null default now(),
  -- Null while in flight.
  status integer,
  body text,
  primary key (account, scope, key)
);
create index idempotency_keys_started on idempotency_keys (started_at);

-- What the delivering processes publish about their breakers. A closed circuit has no row.
create table circuits (
  account uuid not null,
  destination text not null,
  worker text not null,
  state text not null check (state in ('open', 'half_open')),
  since timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (account, destination, worker)
);
create index circuits_worker on circuits (worker);
