-- Sign-in through an OpenID provider: who its people are here, and the sign-ins that are under way.

-- A person at a provider is (issuer, subject); the email address only finds the user the first time.
create table user_identities (
  issuer text not null,
  subject text not null,
  user_id uuid not null references users on delete cascade,
  created_at timestamptz not null default now(),
  primary key (issuer, subject),
  -- An address that the provider gives to somebody else later does not bring the user along.
  unique (user_id, issuer)
);

-- Null: who was invited and came through a provider has no password, until they choose one.
alter table users alter column password_hash drop not null;

-- Ten minutes between leaving for the provider and coming back; used once. The browser has the token, in
-- a cookie, so that nobody finishes in one browser what was begun in another.
create table single_sign_ons (
  -- Of 256 random bits: needs no salt and no slow hash.
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  state text not null,
  nonce text not null,
  code_verifier text not null,
  expires_at timestamptz not null default now() + interval '10 minutes'
);
create index single_sign_ons_expiry on single_sign_ons (expires_at);
