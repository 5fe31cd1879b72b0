import { randomBytes, randomUUID } from "node:crypto";
import { InvalidInput } from "../domain/findings.ts";
import type { Instant } from "../domain/instant.ts";
import type { SigningSecret, SigningSecrets } from "../domain/ports/accounts.ts";
import { createGroupCommit } from "../waiting/group-commit.ts";
import { sealContext, type KeyRing } from "./key-ring.ts";
import { unknownAccount } from "./unknown-account.ts";
import { isUuid } from "./uuid.ts";
import { transaction, type Pool } from "./pool.ts";

/** 24 bytes, as Standard Webhooks recommends (24 to 64). */
const SECRET_BYTES = 24;

/** How long an old secret goes on signing. */
const OVERLAP_HOURS = 24;

/** Most secrets of an account that sign at a time. Each adds 48 bytes to a header; receivers accept a few KB. */
const MOST_SIGNING = 10;

interface StoredSecret {
  id: string;
  account: string;
  secret: string;
  validUntil: Instant | null;
}

/**
 * Webhook signing secrets (Standard Webhooks). A rotated secret goes on signing for 24 hours. Callers that ask for
 * `current` at the same time share one query. Workers keep the answer for a second: within that time a rotation
 * takes effect everywhere.
 */
export function createSigningSecrets({
  pool,
  keyRing,
}: {
  pool: Pool;
  keyRing: KeyRing;
}): SigningSecrets {
  function fresh(account: string): { id: string; secret: string; sealed: string } {
    const id = randomUUID();
    const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
    return { id, secret, sealed: keyRing.encrypt(secret, context({ account, row: id })) };
  }

  const reads = createGroupCommit<string, StoredSecret[]>({
    async commit(accounts) {
      const { rows } = await pool.query<StoredSecret>({
        name: "signing_secrets_current",
        text: `select id, account, secret, valid_until as "validUntil" from signing_secrets
          where account = any($1::uuid[]) and (valid_until is null or valid_until > now())
          order by valid_until desc nulls first, created_at desc`,
        values: [[...new Set(accounts)]],
      });
      const byAccount = Map.groupBy(rows, (row) => row.account);
      return accounts.map((account) => byAccount.get(account) ?? []);
    },
  });

  /** Made on first use. None: there is no such account, or not any more. */
  async function secretsOf(account: string): Promise<SigningSecret[]> {
    if (!isUuid(account)) return [];
    let found = await reads.submit(account);
    if (found.length === 0) {
      const made = fresh(account);
      // If several processes make the first secret at once, the unique index lets one win. The lock on the account, which
      // the reference needs, comes first, as in `rotate`.
      await pool.query(
        `insert into signing_secrets (id, account, secret)
         select $2, id, $3 from accounts where id = $1 and deleted_at is null for key share
         on conflict do nothing`,
        [account, made.id, made.sealed],
      );
      found = await reads.submit(account);
    }
    return found.map((row) => ({
      secret: keyRing.decrypt(row.secret, context({ account: row.account, row: row.id })),
      validUntil: row.validUntil,
    }));
  }

  return {
    current: async (account) => (await secretsOf(account)).map(({ secret }) => secret),
    async list(account) {
      const secrets = await secretsOf(account);
      if (secrets.length === 0) throw unknownAccount(account);
      return secrets;
    },
    async rotate(account) {
      if (!isUuid(account)) throw unknownAccount(account);
      const made = fresh(account);
      return transaction(pool, async (client) => {
        // Rotations of an account wait for each other, and for a first use, whose new secret refers to the account's
        // key: each must see the secret of the one before.
        const locked = await client.query(
          "select 1 from accounts where id = $1 and deleted_at is null for update",
          [account],
        );
        if (locked.rowCount === 0) throw unknownAccount(account);
        await client.query(
          "delete from signing_secrets where account = $1 and valid_until <= now()",
          [account],
        );
        const signing = await client.query("select 1 from signing_secrets where account = $1", [
          account,
        ]);
        if ((signing.rowCount ?? 0) >= MOST_SIGNING) throw tooManySigning();
        const { rows } = await client.query<{ until: number }>(
          `update signing_secrets set valid_until = now() + interval '${OVERLAP_HOURS} hours'
           where account = $1 and valid_until is null
           returning valid_until as until`,
          [account],
        );
        await client.query(
          "insert into signing_secrets (id, account, secret) values ($1, $2, $3)",
          [made.id, account, made.sealed],
        );
        return { secret: made.secret, oldValidUntil: rows[0]?.until ?? null };
      });
    },
  };
}

function tooManySigning(): InvalidInput {
  const message = `${MOST_SIGNING} secrets sign already, because each goes on for ${OVERLAP_HOURS} hours after it was replaced: try again when the first of them has ended`;
  return new InvalidInput([{ field: "", message }]);
}

function context(place: { account: string; row: string }): string {
  return sealContext({ table: "signing_secrets", column: "secret", ...place });
}
