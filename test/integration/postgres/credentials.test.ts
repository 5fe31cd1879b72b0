import { createHash, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { InvalidInput } from "../../../src/domain/findings.ts";
import {
  AdministratorsOnly,
  LastAdministrator,
  LastOwner,
} from "../../../src/domain/ports/accounts.ts";
import { LockHeld } from "../../../src/domain/ports/dependency-unavailable.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createApiKeys } from "../../../src/postgres/api-keys.ts";
import { parseKeyRing, sealContext, UnknownKeyId } from "../../../src/postgres/key-ring.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { assertKeysKnown, reencryptAll } from "../../../src/postgres/sealed-columns.ts";
import { createSessions } from "../../../src/postgres/sessions.ts";
import { createSigningSecrets } from "../../../src/postgres/signing-secrets.ts";
import { createSmtpSettingsStore } from "../../../src/postgres/smtp-settings.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { createCredentials, followMailCatcher } from "../../../src/standalone/first-start.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const key = (fill: number): string => Buffer.alloc(32, fill).toString("base64");
const keyRing = parseKeyRing(`k1:${key(1)}`);
let database: TestDatabase;
let pool: Pool;
let made = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

const SMTP = {
  host: "smtp.example.com",
  port: 587,
  username: "u",
  password: "p@ss",
  from: "noreply@example.com",
  tls: "starttls" as const,
};

async function newAccount(): Promise<string> {
  made += 1;
  return (await createAccounts({ pool }).create({ name: `account ${made}` })).id;
}

test("new SMTP settings make due what a circuit has put off, and neither a retry nor anybody else's", async () => {
  const settings = createSmtpSettingsStore({ pool, keyRing });
  const [account, other] = [await newAccount(), await newAccount()];
  await pool.query(
    `insert into runs (job_uid, account, job_id, generation, trigger, key, destination,
                       scheduled_at, not_before, retry_at, claim_token)
     select gen_random_uuid(), account, name, 1, 'schedule', name, account || ' ' || destination,
            clock_timestamp() + due * interval '1 s', clock_timestamp() + 60 * interval '1 s',
            case when retry then clock_timestamp() + 60 * interval '1 s' end,
            case when claimed then gen_random_uuid() end
       from (values ('put off', $1::uuid, 'smtp', -9, false, false), ('retry', $1, 'smtp', -9, true, false),
                    ('prepared', $1, 'smtp', 60, false, false), ('claimed', $1, 'smtp', -9, false, true),
                    ('webhook', $1, 'https://a.example', -9, false, false),
                    ('of another', $2, 'smtp', -9, false, false))
         as r(name, account, destination, due, retry, claimed)`,
    [account, other],
  );
  await settings.set(account, SMTP);
  const { rows } = await pool.query("select key from runs where not_before <= clock_timestamp()");
  expect(rows).toEqual([{ key: "put off" }]);
  await pool.query("delete from runs");
});

describe("API keys", () => {
  test("are shown once, stored as SHA-256, and authenticate until deleted", async () => {
    const keys = createApiKeys({ pool });
    const account = await newAccount();
    const { key: first, raw } = await keys.create(account, "ci");
    const second = await keys.create(account, "");
    expect(raw).toMatch(/^svc_live_[A-Za-z0-9_-]{32}$/);
    expect(raw.startsWith(first.prefix)).toBe(true);
    expect(first.prefix).toHaveLength(15);
    const stored = await pool.query<{ hash: Buffer; row: string }>(
      "select hash, k::text as row from api_keys k where id = $1",
      [first.id],
    );
    expect(stored.rows[0]?.hash).toEqual(createHash("sha256").update(raw).digest());
    expect(stored.rows[0]?.row).not.toContain(raw);
    expect(await keys.authenticate(raw)).toEqual({
      keyId: first.id,
      account,
      smtpRevision: undefined,
    });
    expect((await keys.list(account)).map((k) => k.id)).toEqual([first.id, second.key.id]);
    expect(await keys.delete(await newAccount(), first.id)).toBe(false);
    expect(await keys.delete(account, first.id)).toBe(true);
    expect(await keys.authenticate(raw)).toBeUndefined();
    expect(await keys.authenticate(second.raw)).toMatchObject({ account });
  });

  test("are made for no account that is deleted or is not there", async () => {
    const account = await newAccount();
    await createAccounts({ pool }).delete(account);
    for (const gone of [account, randomUUID()])
      await expect(createApiKeys({ pool }).create(gone, "late")).rejects.toThrow(InvalidInput);
  });

  test("nobody has another one", async () => {
    const missing = `svc_live_${"a".repeat(32)}`;
    expect(await createApiKeys({ pool }).authenticate(missing)).toBeUndefined();
  });

  const looksLikeOne = `svc_live_${"a".repeat(32)}`;
  test.each([
    "",
    "svc_live_",
    "svc_live_a",
    `Bearer ${looksLikeOne}`,
    ` ${looksLikeOne}`,
    `${looksLikeOne}\n`,
    `${looksLikeOne}\0`,
    `${looksLikeOne}é`,
    looksLikeOne.repeat(9),
    "x".repeat(100_000),
  ])("what cannot be one is not looked up: %.60s", async (raw) => {
    const unasked = { query: () => Promise.reject(new Error("looked up")) } as unknown as Pool;
    expect(await createApiKeys({ pool: unasked }).authenticate(raw)).toBeUndefined();
  });

  test("bring the revision of the account's SMTP settings", async () => {
    const keys = createApiKeys({ pool });
    const settings = createSmtpSettingsStore({ pool, keyRing });
    const [account, other] = [await newAccount(), await newAccount()];
    const { raw } = await keys.create(account, "l");
    const read = async () => (await keys.authenticate(raw))?.smtpRevision;
    await settings.set(other, SMTP);
    expect(await read()).toBeUndefined();
    for (const port of [25, 26]) {
      await settings.set(account, { ...SMTP, port });
      expect(await read()).toEqual(expect.any(String));
      expect(await read()).toBe(await settings.revision(account));
    }
    await settings.delete(account);
    expect(await read()).toBeUndefined();
  });

  test("are judged as of the request, also when requests share a look-up", async () => {
    const keys = createApiKeys({ pool, pace: { timers, monotonic } });
    const account = await newAccount();
    const { key, raw } = await keys.create(account, "l");
    // The first lookup is under way, and the second waits for its turn, while the key is deleted.
    const before = [keys.authenticate(raw), keys.authenticate(raw)];
    await keys.delete(account, key.id);
    const after = keys.authenticate(raw);
    expect(await after).toBeUndefined();
    await Promise.all(before);
  });

  test("of several accounts that are asked for at once bring each its own", async () => {
    const keys = createApiKeys({ pool });
    const accounts = await Promise.all([1, 2, 3].map(newAccount));
    const raws: string[] = [];
    for (const account of accounts) raws.push((await keys.create(account, "l")).raw);
    const [first = "", ...others] = raws;
    // The first is looked up alone, the others together, with one that is nobody's between them.
    const asked = [first, ...others, `svc_live_${"n".repeat(32)}`, first, ...others];
    const found = await Promise.all(asked.map((raw) => keys.authenticate(raw)));
    expect(found.map((caller) => caller?.account)).toEqual([...accounts, undefined, ...accounts]);
  });

  test("note their last use in batches, at most once a minute", async () => {
    const pending: (() => void)[] = [];
    const timers = {
      after: (ms: number, callback: () => void) => {
        // Groups of lookups begin milliseconds apart; the timers that matter here take a second or more.
        if (ms < 1_000) queueMicrotask(callback);
        else pending.push(callback);
        return { cancel: () => undefined };
      },
    };
    const keys = createApiKeys({ pool, pace: { timers, monotonic } });
    const account = await newAccount();
    const { raw } = await keys.create(account, "l");
    const lastUse = async () => (await keys.list(account))[0]?.lastUsedAt;
    await Promise.all([keys.authenticate(raw), keys.authenticate(raw)]);
    expect(pending).toHaveLength(1);
    expect(await lastUse()).toBeNull();
    await keys.flush();
    const first = await lastUse();
    expect(first).toEqual(expect.any(Number));
    await keys.authenticate(raw);
    await keys.flush();
    expect(await lastUse()).toBe(first);
    await pool.query(
      "update api_keys set last_used_at = now() - interval '61 s' where account = $1",
      [account],
    );
    await keys.authenticate(raw);
    await keys.flush();
    expect(await lastUse()).toBeGreaterThanOrEqual(first ?? Infinity);
  });
});

describe("SMTP settings", () => {
  test("come back as set, sealed at rest, with a new revision each time", async () => {
    const store = createSmtpSettingsStore({ pool, keyRing });
    const account = await newAccount();
    expect(await store.get(account)).toBeUndefined();
    expect(await store.revision(account)).toBeUndefined();
    await store.set(account, SMTP);
    const first = await store.get(account);
    expect(first).toEqual({ ...SMTP, revision: expect.any(String) });
    expect(await store.revision(account)).toBe(first?.revision);
    const { rows } = await pool.query("select * from smtp_settings where account = $1", [account]);
    expect(JSON.stringify(rows)).not.toContain("p@ss");
    await store.set(account, { ...SMTP, username: null, password: null, tls: "none" });
    const second = await store.get(account);
    expect(second).toMatchObject({ username: null, password: null, tls: "none" });
    expect(second?.revision).not.toBe(first?.revision);
    await store.delete(account);
    expect(await store.get(account)).toBeUndefined();
    await expect(store.set(randomUUID(), SMTP)).rejects.toThrow(InvalidInput);
    await createAccounts({ pool }).delete(account);
    await expect(store.set(account, SMTP)).rejects.toThrow(InvalidInput);
  });

  test("that are new bring forward the mails that a circuit has put off, and nothing before its time", async () => {
    const store = createSmtpSettingsStore({ pool, keyRing });
    const [account, other] = [await newAccount(), await newAccount()];
    const run = async (of: { account?: string; to?: string; due?: string; retry?: string }) => {
      const { to = "smtp", due = "-1 min", retry = null } = of;
      const { rows } = await pool.query<{ id: string }>(
        `insert into runs (job_uid, account, job_id, generation, trigger, key, destination,
                           scheduled_at, retry_at, not_before)
         select gen_random_uuid(), $1::uuid, 'mail', 1, 'schedule', 'at', $1 || ' ' || $2,
                now() + $3::interval, now() + $4::interval, now() + interval '30 s' returning id`,
        [of.account ?? account, to, due, retry],
      );
      return rows[0]?.id;
    };
    const putOff = [await run({}), await run({ due: "-1 h", retry: "-1 s" })];
    await run({ due: "30 s" });
    await run({ due: "-1 h", retry: "30 s" });
    await run({ to: "https://example.com" });
    await run({ account: other });
    await store.set(account, SMTP);
    const { rows } = await pool.query<{ id: string }>(
      "delete from runs where not_before <= clock_timestamp() + interval '1 s' returning id",
    );
    expect(new Set(rows.map(({ id }) => id))).toEqual(new Set(putOff));
    await pool.query("delete from runs");
  });

  test("a password copied to another account's row does not open", async () => {
    const store = createSmtpSettingsStore({ pool, keyRing });
    const [from, to] = [await newAccount(), await newAccount()];
    await store.set(from, SMTP);
    await store.set(to, SMTP);
    await pool.query(
      `update smtp_settings set password = (select password from smtp_settings where account = $1)
       where account = $2`,
      [from, to],
    );
    await expect(store.get(to)).rejects.toThrow(/does not open/);
    await store.delete(to);
  });
});

describe("signing secrets", () => {
  test("are made once on first use, whoever asks first", async () => {
    const account = await newAccount();
    const stores = Array.from({ length: 5 }, () => createSigningSecrets({ pool, keyRing }));
    const seen = await Promise.all([...stores, ...stores].map((store) => store.current(account)));
    expect(new Set(seen.flat()).size).toBe(1);
    expect(seen[0]?.[0]).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
    expect(await stores[0]?.current(randomUUID())).toEqual([]);
    await expect(stores[0]?.list(randomUUID())).rejects.toThrow(InvalidInput);
  });

  test("are each account's own, also when several ask at once", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const accounts = await Promise.all([1, 2, 3].map(newAccount));
    const alone: string[][] = [];
    for (const account of accounts) alone.push([(await store.rotate(account)).secret]);
    expect(await Promise.all(accounts.map((account) => store.current(account)))).toEqual(alone);
  });

  test("are neither made nor replaced for an account that is deleted", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    await createAccounts({ pool }).delete(account);
    expect(await store.current(account)).toEqual([]);
    await expect(store.rotate(account)).rejects.toThrow(InvalidInput);
  });

  test("rotation: both sign for 24 hours, the new one first; then the new one alone", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const [old] = await store.current(account);
    const { secret, oldValidUntil } = await store.rotate(account);
    expect(await store.current(account)).toEqual([secret, old]);
    expect(await store.list(account)).toEqual([
      { secret, validUntil: null },
      { secret: old, validUntil: oldValidUntil },
    ]);
    const { rows } = await pool.query<{ now: number }>("select now() as now");
    expect(Math.abs((oldValidUntil ?? 0) - (rows[0]?.now ?? 0) - 86_400_000)).toBeLessThan(10_000);
    await pool.query(
      "update signing_secrets set valid_until = now() where account = $1 and valid_until is not null",
      [account],
    );
    expect(await store.current(account)).toEqual([secret]);
  });

  test("a rotation does not prolong what was replaced before", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const [oldest] = await store.current(account);
    await store.rotate(account);
    await pool.query(
      "update signing_secrets set valid_until = now() + interval '1 hour' where account = $1 and valid_until is not null",
      [account],
    );
    const before = (await store.list(account)).find(({ secret }) => secret === oldest);
    await store.rotate(account);
    expect((await store.list(account)).at(-1)).toEqual(before);
  });

  test("a rotation waits for a first use under way, and replaces its secret", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const id = randomUUID();
    const context = sealContext({ table: "signing_secrets", column: "secret", account, row: id });
    const first = await openTransaction(
      pool,
      "insert into signing_secrets (id, account, secret) values ($1, $2, $3)",
      [id, account, keyRing.encrypt("whsec_first", context)],
    );
    const rotated = store.rotate(account);
    await untilLockWaits(pool);
    await first.commit();
    const { secret } = await rotated;
    expect(await store.current(account)).toEqual([secret, "whsec_first"]);
  });

  test("a first use that comes during a rotation waits for it", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const rotation = await openTransaction(
      pool,
      "select 1 from accounts where id = $1 for update",
      [account],
    );
    const first = store.current(account);
    await untilLockWaits(pool);
    const id = randomUUID();
    const context = sealContext({ table: "signing_secrets", column: "secret", account, row: id });
    // Ends in a deadlock if the first use has its place in the index already.
    await rotation.client.query(
      "insert into signing_secrets (id, account, secret) values ($1, $2, $3)",
      [id, account, keyRing.encrypt("whsec_rotated", context)],
    );
    await rotation.commit();
    expect(await first).toEqual(["whsec_rotated"]);
  });

  test("a rotation before the first use replaces nothing", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const { secret, oldValidUntil } = await store.rotate(account);
    expect(oldValidUntil).toBeNull();
    expect(await store.current(account)).toEqual([secret]);
  });

  test("rotations at once: each is kept, one is the newest", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const rotated = await Promise.all([1, 2, 3].map(() => store.rotate(account)));
    const current = await store.current(account);
    expect(new Set(current)).toEqual(new Set(rotated.map((r) => r.secret)));
  });

  test("a rotation waits for the one before it", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    const before = await openTransaction(
      pool,
      "select 1 from accounts where id = $1 for no key update",
      [account],
    );
    const rotated = Promise.all([1, 2].map(() => store.rotate(account)));
    await untilLockWaits(pool, 2);
    await before.commit();
    const secrets = (await rotated).map(({ secret }) => secret);
    expect(new Set(await store.current(account))).toEqual(new Set(secrets));
  });

  test("no more sign at a time than fit into a header", async () => {
    const store = createSigningSecrets({ pool, keyRing });
    const account = await newAccount();
    for (let made = 0; made < 10; made += 1) await store.rotate(account);
    await expect(store.rotate(account)).rejects.toThrow(InvalidInput);
    const [newest, ...old] = await store.current(account);
    expect(old).toHaveLength(9);
    await pool.query(
      "update signing_secrets set valid_until = now() where account = $1 and valid_until is not null",
      [account],
    );
    const { secret } = await store.rotate(account);
    expect(await store.current(account)).toEqual([secret, newest]);
  });
});

describe("key rotation", () => {
  test("data under an unknown key stops the start; re-encryption moves everything to the first key", async () => {
    const account = await newAccount();
    const settings = {
      host: "h",
      port: 25,
      username: "u",
      password: "p",
      from: "a@x.io",
      tls: "none" as const,
    };
    await createSmtpSettingsStore({ pool, keyRing }).set(account, settings);
    const [secret] = await createSigningSecrets({ pool, keyRing }).current(account);
    await assertKeysKnown({ pool, keyRing });
    const stranger = parseKeyRing(`k9:${key(9)}`);
    await expect(assertKeysKnown({ pool, keyRing: stranger })).rejects.toThrow(UnknownKeyId);
    await expect(assertKeysKnown({ pool, keyRing: parseKeyRing(`k1:${key(7)}`) })).rejects.toThrow(
      /does not open/,
    );

    const both = parseKeyRing(`k2:${key(2)},k1:${key(1)}`);
    const { reencrypted } = await reencryptAll({ pool, keyRing: both });
    expect(reencrypted).toBeGreaterThanOrEqual(2);
    expect(await reencryptAll({ pool, keyRing: both })).toEqual({ reencrypted: 0 });
    const only = parseKeyRing(`k2:${key(2)}`);
    await assertKeysKnown({ pool, keyRing: only });
    expect((await createSmtpSettingsStore({ pool, keyRing: only }).get(account))?.password).toBe(
      "p",
    );
    expect(await createSigningSecrets({ pool, keyRing: only }).current(account)).toEqual([secret]);
    await reencryptAll({ pool, keyRing: parseKeyRing(`k1:${key(1)},k2:${key(2)}`) });
  });
});

test("however many there are, all are sealed again", async () => {
  const accounts = await Promise.all(Array.from({ length: 120 }, newAccount));
  const secrets = createSigningSecrets({ pool, keyRing });
  await Promise.all(accounts.map((account) => secrets.current(account)));
  await reencryptAll({ pool, keyRing: parseKeyRing(`k2:${key(2)},k1:${key(1)}`) });
  const { rows } = await pool.query(
    "select from signing_secrets where split_part(secret, ':', 1) <> 'k2'",
  );
  expect(rows).toEqual([]);
  await reencryptAll({ pool, keyRing: parseKeyRing(`k1:${key(1)},k2:${key(2)}`) });
});

test("a password that is set while all are sealed again stays", async () => {
  const account = await newAccount();
  const both = parseKeyRing(`k2:${key(2)},k1:${key(1)}`);
  const settings = createSmtpSettingsStore({ pool, keyRing: both });
  await createSmtpSettingsStore({ pool, keyRing }).set(account, SMTP);
  const context = { table: "smtp_settings", column: "password", account, row: account };
  const user = await openTransaction(
    pool,
    "update smtp_settings set password = $2 where account = $1",
    [account, both.encrypt("new", sealContext(context))],
  );
  const sealed = reencryptAll({ pool, keyRing: both });
  await untilLockWaits(pool);
  await user.commit();
  await sealed;
  expect((await settings.get(account))?.password).toBe("new");
  await reencryptAll({ pool, keyRing: parseKeyRing(`k1:${key(1)},k2:${key(2)}`) });
});

describe("users and sessions", () => {
  const owner = { admin: false };
  test("sign in with the right password only, by address without regard to case", async () => {
    const users = createUsers({ pool });
    const account = await newAccount();
    const user = await users.create({
      account,
      email: "Ann@Example.com",
      password: "correct horse",
    });
    expect(user).toMatchObject({ account, email: "ann@example.com", role: "owner", admin: false });
    const verified = await users.verify({
      email: "ANN@example.com",
      password: "correct horse",
      party: "test",
    });
    expect(verified?.user).toEqual(user);
    expect(
      await users.verify({ email: "ann@example.com", password: "wrong horse", party: "test" }),
    ).toBeUndefined();
    expect(
      await users.verify({ email: "nobody@example.com", password: "correct horse", party: "test" }),
    ).toBeUndefined();
    expect(
      await users.verify({ email: "not an address\0", password: "correct horse", party: "test" }),
    ).toBeUndefined();
    expect(await users.byEmail("Ann@example.com")).toEqual(user);
    expect(await users.list(account)).toEqual([user]);
    expect(verified && (await users.stillVerified(verified))).toBe(true);
    await users.setPassword(user.id, "another horse");
    expect(verified && (await users.stillVerified(verified))).toBe(false);
    expect(verified && (await users.replacePassword(verified, "a third horse"))).toBeUndefined();
    expect(
      await users.verify({ email: "ann@example.com", password: "correct horse", party: "test" }),
    ).toBeUndefined();
    expect(
      (await users.verify({ email: "ann@example.com", password: "another horse", party: "test" }))
        ?.user,
    ).toEqual(user);
    const again = users.create({ account, email: "ann@example.com", password: "correct horse" });
    await expect(again).rejects.toThrow(InvalidInput);
    await expect(users.create({ account, email: "b", password: "short" })).rejects.toMatchObject({
      findings: [{ field: "password" }, { field: "email" }],
    });
    const guessed = ["password", "Passw0rd1", "1qaz2wsx", "aaaaaaaaaaaa", "abababababab"];
    // Full width, as Japanese keyboards write it: the hash is that of "password".
    for (const password of [...guessed, "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44"])
      await expect(users.create({ account, email: "c@example.com", password })).rejects.toThrow(
        "is one of the first that are guessed",
      );
    expect(await users.delete(randomUUID(), user.id, owner)).toBe(false);
    await expect(users.delete(account, user.id, owner)).rejects.toThrow(LastOwner);
    await users.create({ account, email: "bob@example.com", password: "correct horse" });
    expect(await users.delete(account, user.id, owner)).toBe(true);
    expect(await users.byEmail("ann@example.com")).toBeUndefined();
  });

  test("a role changes in place; of two owners who leave at once, one stays", async () => {
    const users = createUsers({ pool });
    const account = await newAccount();
    const [one, two] = await Promise.all(
      ["one", "two"].map((name) =>
        users.create({ account, email: `${name}@roles.example`, password: "correct horse" }),
      ),
    );
    if (!one || !two) throw new Error("both were just made");
    expect(await users.setRole(randomUUID(), one.id, "member", owner)).toBeUndefined();
    expect(await users.setRole(account, randomUUID(), "member", owner)).toBeUndefined();
    for (let round = 0; round < 10; round += 1) {
      const results = await Promise.allSettled([
        users.setRole(account, one.id, "member", owner),
        users.setRole(account, two.id, "member", owner),
      ]);
      const [refused, ...others] = results.filter((result) => result.status === "rejected");
      expect(refused?.reason).toBeInstanceOf(LastOwner);
      expect(others).toEqual([]);
      const left = (await users.list(account)).filter(({ role }) => role === "owner");
      expect(left).toHaveLength(1);
      for (const { id } of [one, two]) await users.setRole(account, id, "owner", owner);
    }
    expect(await users.setRole(account, one.id, "member", owner)).toEqual({
      ...one,
      role: "member",
    });
    await expect(users.setRole(account, two.id, "member", owner)).rejects.toThrow(LastOwner);
    expect(await users.setRole(account, two.id, "owner", owner)).toEqual(two);
  });

  test("administrators are the administrators' to remove or demote, and one stays", async () => {
    await pool.query("update users set admin = false");
    const users = createUsers({ pool });
    const accounts = createAccounts({ pool });
    const [here, there] = [await newAccount(), await newAccount()];
    const make = (account: string, name: string, admin: boolean) =>
      users.create({ account, email: `${name}@admins.example`, password: "correct horse", admin });
    const one = await make(here, "one", true);
    await make(here, "plain", false);
    await expect(users.delete(here, one.id, owner)).rejects.toThrow(AdministratorsOnly);
    await expect(users.setRole(here, one.id, "member", owner)).rejects.toThrow(AdministratorsOnly);
    await expect(accounts.delete(here, owner)).rejects.toThrow(AdministratorsOnly);
    // Any owner may do what is no demotion.
    expect(await users.setRole(here, one.id, "owner", owner)).toEqual(one);
    await expect(users.delete(here, one.id, one)).rejects.toThrow(LastAdministrator);
    await expect(users.setRole(here, one.id, "member", one)).rejects.toThrow(LastAdministrator);
    await expect(accounts.delete(here, one)).rejects.toThrow(LastAdministrator);
    expect(await users.list(here)).toHaveLength(2);

    const two = await make(there, "two", true);
    // For who asks about another account's there is nobody, not even somebody who may not be removed.
    expect(await users.delete(here, two.id, owner)).toBe(false);
    expect(await users.delete(here, two.id, one)).toBe(false);
    expect(await users.setRole(here, two.id, "member", owner)).toBeUndefined();
    expect(await users.list(there)).toEqual([two]);

    // Each deletes the other's account at the same time: one of them must remain.
    const results = await Promise.allSettled([
      accounts.delete(here, two),
      accounts.delete(there, one),
    ]);
    const [refused, ...others] = results.filter((result) => result.status === "rejected");
    expect(refused?.reason).toBeInstanceOf(LastAdministrator);
    expect(others).toEqual([]);

    // The admin command may do it all the same.
    for (const account of [here, there]) await accounts.delete(account);
    const { rows } = await pool.query("select 1 from users where admin");
    expect(rows).toEqual([]);
  });

  test("a session lasts until it is ended, expires, or its user goes", async () => {
    const users = createUsers({ pool });
    const sessions = createSessions({ pool });
    const account = await newAccount();
    const user = await users.create({
      account,
      email: "s@example.com",
      password: "correct horse",
      role: "member",
    });
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => sessions.create(user.id)));
    if (!one || !two || !three) throw new Error("no sessions");
    expect((await sessions.authenticate(one.token))?.user).toEqual(user);
    const { rows } = await pool.query("select s::text as row from sessions s");
    expect(JSON.stringify(rows)).not.toContain(one.token);
    await sessions.delete(one.token);
    expect(await sessions.authenticate(one.token)).toBeUndefined();
    await pool.query("update sessions set expires_at = now() where token_hash = $1", [
      createHash("sha256").update(two.token).digest(),
    ]);
    expect(await sessions.authenticate(two.token)).toBeUndefined();
    expect(await sessions.authenticate(three.token)).toBeDefined();
    await sessions.deleteAll(user.id);
    expect(await sessions.authenticate(three.token)).toBeUndefined();
    const four = await sessions.create(user.id);
    await users.delete(account, user.id, owner);
    expect(await sessions.authenticate(four?.token ?? "")).toBeUndefined();
    expect(await sessions.create(user.id)).toBeUndefined();
    expect(await sessions.authenticate("x")).toBeUndefined();
  });
});

const sessionsOf = async (id: string) =>
  (await pool.query("select from sessions where user_id = $1", [id])).rowCount;

const holdSessions = (id: string) =>
  openTransaction(pool, "select from sessions where user_id = $1 for update", [id]);

describe("a password that is replaced", () => {
  const [users, sessions] = [() => createUsers({ pool }), () => createSessions({ pool })];

  /** With a session, and proof that the password was right. */
  async function signedIn() {
    const [email, password] = [`${randomUUID()}@example.com`, "correct horse"];
    const { id } = await users().create({ account: await newAccount(), email, password });
    const session = await sessions().create(id);
    const verified = await users().verify({ email, password, party: "test" });
    if (!session || !verified) throw new Error("not signed in");
    return { id, session, verified };
  }

  test("is so together with the end of the sessions, or not at all", async () => {
    const { id, verified } = await signedIn();
    const holder = await holdSessions(id);
    const impatient = createUsers({ pool: database.pool({ lockTimeoutMs: 200 }) });
    await expect(impatient.replacePassword(verified, "another horse")).rejects.toThrow(LockHeld);
    expect(await users().stillVerified(verified)).toBe(true);
    await holder.commit();
    expect(await impatient.replacePassword(verified, "another horse")).toBeDefined();
    expect(await sessionsOf(id)).toBe(0);
  });

  test("ends a session that is just beginning", async () => {
    const { id } = await signedIn();
    const beginning = await openTransaction(pool);
    await createSessions({ pool: beginning.client as Pool }).create(id);
    const replaced = users().setPassword(id, "another horse");
    await untilLockWaits(pool);
    await beginning.commit();
    await replaced;
    expect(await sessionsOf(id)).toBe(0);
  });

  test("is seen by whoever begins a session after that", async () => {
    const { id, verified } = await signedIn();
    const holder = await holdSessions(id);
    const replaced = users().setPassword(id, "another horse");
    await untilLockWaits(pool);
    const late = sessions().create(id);
    await untilLockWaits(pool, 2);
    await holder.commit();
    await replaced;
    expect(await late).toBeDefined();
    expect(await users().stillVerified(verified)).toBe(false);
  });
});

describe("a first start of standalone", () => {
  const catcher = { host: "127.0.0.1", smtpPort: 2525 };

  test("that was killed before it showed them: the next one's credentials are good", async () => {
    const accounts = createAccounts({ pool });
    const apiKeys = createApiKeys({ pool });
    const smtpSettings = createSmtpSettingsStore({ pool, keyRing });
    const users = createUsers({ pool });
    const stores = { accounts, apiKeys, smtpSettings, users };
    const first = await createCredentials(stores, catcher);
    const account = (await accounts.byName("default"))?.id ?? "";
    const kept = await smtpSettings.revision(account);
    const { apiKey, email, password } = await createCredentials(stores, catcher);
    expect(await apiKeys.authenticate(apiKey)).toMatchObject({ account });
    expect((await users.verify({ email, password, party: "test" }))?.user).toMatchObject({
      account,
      admin: true,
    });
    expect(await users.verify({ email, password: first.password, party: "test" })).toBeUndefined();
    expect(await smtpSettings.revision(account)).toBe(kept);
  });

  test("a mail catcher that moves is followed by who sends there, and by nobody else", async () => {
    const accounts = createAccounts({ pool });
    const smtpSettings = createSmtpSettingsStore({ pool, keyRing });
    const [apiKeys, users] = [createApiKeys({ pool }), createUsers({ pool })];
    await createCredentials({ accounts, apiKeys, smtpSettings, users }, catcher);
    const account = (await accounts.byName("default"))?.id ?? "";
    const move = { host: "127.0.0.1", from: 2525, to: 2600 };
    await followMailCatcher({ accounts, smtpSettings }, move);
    const moved = await smtpSettings.get(account);
    expect(moved).toMatchObject({ host: "127.0.0.1", port: 2600, tls: "none" });
    for (const own of [{ host: "smtp.example.com", port: 2525 }, { port: 2526 }]) {
      if (moved === undefined) throw new Error("no settings");
      await smtpSettings.set(account, { ...moved, ...own });
      await followMailCatcher({ accounts, smtpSettings }, move);
      expect(await smtpSettings.get(account)).toMatchObject(own);
    }
  });
});
