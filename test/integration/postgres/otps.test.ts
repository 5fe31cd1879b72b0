import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Otps } from "../../../src/domain/ports/mail.ts";
import { parseKeyRing } from "../../../src/postgres/key-ring.ts";
import { createOtps, deleteExpiredOtps } from "../../../src/postgres/otps.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const key = (fill: number): string => Buffer.alloc(32, fill).toString("base64");
const keyRing = parseKeyRing(`k1:${key(1)}`);
const account = randomUUID();
let database: TestDatabase;
let pool: Pool;
let addresses = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool({ max: 20 });
  return () => database.drop();
});

function newAddress(): string {
  addresses += 1;
  return `user${addresses}@example.com`;
}

async function issued(otps: Otps, address: string) {
  const result = await otps.issue(account, address);
  if (result.kind !== "issued") throw new Error(`limited for ${result.retryAfterSeconds} s`);
  return result;
}

/** The present time by PostgreSQL's clock. */
async function now(): Promise<number> {
  const { rows } = await pool.query<{ now: number }>("select now() as now");
  return rows[0]?.now ?? NaN;
}

/** A code that is not the given one. */
function wrong(code: string): string {
  return code === "000000" ? "000001" : "000000";
}

/** Lets time pass for one address, by moving its moments into the past. */
async function elapse(address: string, interval: string): Promise<void> {
  await pool.query(
    `update otps set expires_at = expires_at - $2::interval, updated_at = updated_at - $2::interval,
       sends = array(select m - $2::interval from unnest(sends) m),
       failures = array(select m - $2::interval from unnest(failures) m)
     where address = $1`,
    [address, interval],
  );
}

describe("one-time passcodes", () => {
  test("a code verifies once, for its account and address only, and only after activation", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const code = await issued(otps, address);
    expect(code.code).toMatch(/^\d{6}$/);
    expect(await otps.verify(account, address, code.code)).toBe(false);
    await otps.activate(code.id);
    expect(await otps.verify(randomUUID(), address, code.code)).toBe(false);
    expect(await otps.verify(account, newAddress(), code.code)).toBe(false);
    expect(await otps.verify(account, address, ` ${code.code}`)).toBe(false);
    expect(await otps.verify(account, address, code.code)).toBe(true);
    expect(await otps.verify(account, address, code.code)).toBe(false);
    await otps.activate(code.id);
    expect(await otps.verify(account, address, code.code)).toBe(false);
  });

  test("a code copied to another account's row, or another address's, does not verify", async () => {
    const otps = createOtps({ pool, keyRing });
    const [address, other] = [newAddress(), newAddress()];
    const code = await issued(otps, address);
    await otps.activate(code.id);
    const another = randomUUID();
    for (const [account_, address_] of [
      [another, address],
      [account, other],
    ] as const) {
      await pool.query(
        `insert into otps (account, address, id, code_hmac, active, expires_at, sends)
         select $3, $4, uuidv7(), code_hmac, active, expires_at, sends
           from otps where account = $1 and address = $2`,
        [account, address, account_, address_],
      );
      expect(await otps.verify(account_, address_, code.code)).toBe(false);
    }
    expect(await otps.verify(account, address, code.code)).toBe(true);
  });

  test("the code is nowhere in the database, and leading zeros are kept", async () => {
    const otps = createOtps({ pool, keyRing, makeCode: () => "000042" });
    const address = newAddress();
    const code = await issued(otps, address);
    await otps.activate(code.id);
    const { rows } = await pool.query("select * from otps where address = $1", [address]);
    expect(JSON.stringify(rows)).not.toContain("000042");
    expect(await otps.verify(account, address, "42")).toBe(false);
    expect(await otps.verify(account, address, "000042")).toBe(true);
  });

  test("expires after ten minutes", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const before = await now();
    const code = await issued(otps, address);
    expect(code.expiresAt - 600_000).toBeGreaterThanOrEqual(before);
    expect(code.expiresAt - 600_000).toBeLessThanOrEqual(await now());
    await otps.activate(code.id);
    await elapse(address, "10 minutes");
    expect(await otps.verify(account, address, code.code)).toBe(false);
  });

  test("a new issue kills the old code at once, and a late activation of the old one does nothing", async () => {
    let next = 100_000;
    const otps = createOtps({ pool, keyRing, makeCode: () => String((next += 1)) });
    const address = newAddress();
    const first = await issued(otps, address);
    await otps.activate(first.id);
    const second = await issued(otps, address);
    expect(await otps.verify(account, address, first.code)).toBe(false);
    await otps.activate(first.id);
    expect(await otps.verify(account, address, second.code)).toBe(false);
    await otps.discard(first.id);
    await otps.activate(second.id);
    expect(await otps.verify(account, address, second.code)).toBe(true);
  });

  test("a discarded code stays dead", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const code = await issued(otps, address);
    await otps.discard(code.id);
    await otps.activate(code.id);
    expect(await otps.verify(account, address, code.code)).toBe(false);
  });

  test("a send that nobody can have does not count, its code stays dead, and so does the one before", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const before = await issued(otps, address);
    await otps.activate(before.id);
    for (let tries = 0; tries < 10; tries += 1) {
      const code = await issued(otps, address);
      await otps.withdraw(code.id);
      // A second withdrawal does not withdraw another code.
      await otps.withdraw(code.id);
      await otps.activate(code.id);
      expect(await otps.verify(account, address, code.code)).toBe(false);
    }
    expect(await otps.verify(account, address, before.code)).toBe(false);
    const replaced = await issued(otps, address);
    for (let sends = 3; sends <= 5; sends += 1) await issued(otps, address);
    // A newer code was issued in between.
    await otps.withdraw(replaced.id);
    expect(await otps.issue(account, address)).toMatchObject({ kind: "limited" });
  });

  test("twenty right tries at once: exactly one is true", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const code = await issued(otps, address);
    await otps.activate(code.id);
    const results = await Promise.all(
      Array.from({ length: 20 }, () => otps.verify(account, address, code.code)),
    );
    expect(results.filter(Boolean)).toHaveLength(1);
  });

  test("five wrong tries burn the code, also when they come at once", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const code = await issued(otps, address);
    await otps.activate(code.id);
    await Promise.all(
      Array.from({ length: 20 }, () => otps.verify(account, address, wrong(code.code))),
    );
    const { rows } = await pool.query<{ tries: number; failures: number; burned: boolean }>(
      `select wrong_tries as tries, cardinality(failures) as failures, code_hmac is null as burned
       from otps where address = $1`,
      [address],
    );
    expect(rows).toEqual([{ tries: 5, failures: 5, burned: true }]);
    expect(await otps.verify(account, address, code.code)).toBe(false);
  });

  test("four wrong tries do not", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const code = await issued(otps, address);
    await otps.activate(code.id);
    for (let i = 0; i < 4; i += 1) await otps.verify(account, address, wrong(code.code));
    expect(await otps.verify(account, address, code.code)).toBe(true);
  });

  test("ten wrong tries in an hour close the address, resends or not, until the hour is over", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    for (let round = 0; round < 2; round += 1) {
      const code = await issued(otps, address);
      await otps.activate(code.id);
      for (let i = 0; i < 5; i += 1) await otps.verify(account, address, wrong(code.code));
    }
    const third = await issued(otps, address);
    await otps.activate(third.id);
    expect(await otps.verify(account, address, third.code)).toBe(false);
    await elapse(address, "61 minutes");
    const fourth = await issued(otps, address);
    await otps.activate(fourth.id);
    expect(await otps.verify(account, address, fourth.code)).toBe(true);
  });

  test("five sends in ten minutes; the sixth says when, and leaves the last code alone", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    let last = await issued(otps, address);
    await elapse(address, "4 minutes");
    for (let i = 0; i < 4; i += 1) last = await issued(otps, address);
    await otps.activate(last.id);
    const limited = await otps.issue(account, address);
    if (limited.kind !== "limited") throw new Error("the sixth send was let through");
    expect(limited.retryAfterSeconds).toBeGreaterThan(350);
    expect(limited.retryAfterSeconds).toBeLessThanOrEqual(360);
    expect(await otps.verify(account, address, last.code)).toBe(true);
    await elapse(address, "6 minutes");
    expect((await otps.issue(account, address)).kind).toBe("issued");
    expect((await otps.issue(account, address)).kind).toBe("limited");
  });

  test.each([
    { what: "a new code", after: "55 minutes", happens: issued },
    {
      what: "a wrong try",
      after: "9 minutes",
      happens: (otps: Otps, address: string, code: string) =>
        otps.verify(account, address, wrong(code)),
    },
  ])("$what, $after after the first code, is known for an hour", async ({ after, happens }) => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const first = await issued(otps, address);
    await otps.activate(first.id);
    await elapse(address, after);
    await happens(otps, address, first.code);
    const left = async () => {
      await deleteExpiredOtps({ pool });
      return (await pool.query("select from otps where address = $1", [address])).rowCount;
    };
    await elapse(address, "59 minutes");
    expect(await left()).toBe(1);
    await elapse(address, "2 minutes");
    expect(await left()).toBe(0);
  });

  test("twenty sends at once: five are let through", async () => {
    const otps = createOtps({ pool, keyRing });
    const address = newAddress();
    const results = await Promise.all(
      Array.from({ length: 20 }, () => otps.issue(account, address)),
    );
    expect(results.filter((r) => r.kind === "issued")).toHaveLength(5);
  });

  test("a key rotation does not kill live codes", async () => {
    const address = newAddress();
    const before = createOtps({ pool, keyRing });
    const code = await issued(before, address);
    await before.activate(code.id);
    const after = createOtps({ pool, keyRing: parseKeyRing(`k2:${key(2)},k1:${key(1)}`) });
    expect(await after.verify(account, address, code.code)).toBe(true);
  });
});
