import { createHmac, randomInt } from "node:crypto";
import type { Instant } from "../domain/instant.ts";
import { OTP_MINUTES } from "../domain/mail.ts";
import type { Otps } from "../domain/ports/mail.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Pool } from "./pool.ts";

const WRONG_TRIES_PER_CODE = 5;
const WRONG_TRIES_PER_HOUR = 10;
const SENDS_PER_TEN_MINUTES = 5;

/**
 * One-time passcodes. An address has one row; every decision is one statement on it, so the row's lock
 * serialises whatever arrives at once: one code is live, it verifies once, and no try goes uncounted.
 */
export function createOtps({
  pool,
  keyRing,
  makeCode = () => randomInt(0, 1_000_000).toString().padStart(6, "0"),
}: {
  pool: Pool;
  keyRing: KeyRing;
  /** Six digits, uniform, leading zeros kept. Replaced only by tests that must know the code. */
  makeCode?: () => string;
}): Otps {
  // A code lives ten minutes: after a key rotation those made under the older keys still verify.
  const keys = keyRing.derive("one-time passcodes");
  const hmacs = (account: string, address: string, code: string): Buffer[] =>
    keys.map((key) =>
      createHmac("sha256", key)
        .update(JSON.stringify([account, address, code]))
        .digest(),
    );

  return {
    async issue(account, address) {
      for (;;) {
        const code = makeCode();
        const [hmac] = hmacs(account, address, code);
        const issued = await pool.query<{ id: string; expiresAt: Instant }>(
          `insert into otps as o (account, address, id, code_hmac, active, expires_at, sends)
           values ($1, $2, uuidv7(), $3, false, now() + interval '${OTP_MINUTES} minutes', array[now()])
           on conflict (account, address) do update set id = excluded.id,
             code_hmac = excluded.code_hmac, active = false, expires_at = excluded.expires_at,
             wrong_tries = 0, failures = moments_within(o.failures, '1 hour'),
             sends = moments_within(o.sends, '10 minutes') || now(), updated_at = now()
           where cardinality(moments_within(o.sends, '10 minutes')) < $4
           returning id, expires_at as "expiresAt"`,
          [account, address, hmac, SENDS_PER_TEN_MINUTES],
        );
        const [row] = issued.rows;
        if (row !== undefined) return { kind: "issued", code, ...row };
        const limited = await pool.query<{ seconds: number }>(
          `select ceil(extract(epoch from (moments_within(sends, '10 minutes'))[1]
             + interval '10 minutes' - now()))::int as seconds
           from otps where account = $1 and address = $2
             and cardinality(moments_within(sends, '10 minutes')) >= $3`,
          [account, address, SENDS_PER_TEN_MINUTES],
        );
        const seconds = limited.rows[0]?.seconds;
        // At least 1: the oldest send is still in the window. No row: it left it between the two statements; ask again.
        if (seconds !== undefined) return { kind: "limited", retryAfterSeconds: seconds };
      }
    },
    async activate(id) {
      // Found by the id of its issue, which a newer issue has replaced. Codes that were used, burnt or discarded
      // have no HMAC and stay dead.
      await pool.query(
        "update otps set active = true where id = $1 and code_hmac is not null and expires_at > now()",
        [id],
      );
    },
    async discard(id) {
      await pool.query("update otps set active = false, code_hmac = null where id = $1", [id]);
    },
    async withdraw(id) {
      // Removes the last send, which is this one's, unless a newer code was issued meanwhile: then nothing matches.
      await pool.query(
        `update otps set active = false, code_hmac = null, sends = trim_array(sends, 1)
         where id = $1 and code_hmac is not null`,
        [id],
      );
    },
    async verify(account, address, code) {
      if (!/^[0-9]{6}$/.test(code)) return false;
      // One UPDATE looks, counts and consumes. After waiting for the row's lock PostgreSQL evaluates it
      // again on the row as the winner left it, `old` included: parallel guesses are counted one by one.
      const live = `(o.active and o.expires_at > now()
          and cardinality(moments_within(o.failures, '1 hour')) < ${WRONG_TRIES_PER_HOUR})`;
      const over = `(o.code_hmac = any($3::bytea[]) or o.wrong_tries + 1 >= ${WRONG_TRIES_PER_CODE})`;
      const { rows } = await pool.query<{ verified: boolean | null }>(
        `update otps o set
           active = o.active and not ${over},
           code_hmac = case when ${over} then null else o.code_hmac end,
           wrong_tries = o.wrong_tries + (o.code_hmac <> all($3::bytea[]))::int,
           failures = case when o.code_hmac = any($3::bytea[]) then o.failures
             else moments_within(o.failures, '1 hour') || now() end,
           updated_at = now()
         where o.account = $1 and o.address = $2 and ${live}
         returning old.code_hmac = any($3::bytea[]) as verified`,
        [account, address, hmacs(account, address, code)],
      );
      return rows[0]?.verified === true;
    },
  };
}

/** Rows whose limits and code have all run out. For the retention task. */
export async function deleteExpiredOtps(options: { pool: Pool } & Batches): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "otps",
    where: "updated_at < now() - interval '1 hour'",
    oldestFirst: "updated_at",
  });
}
