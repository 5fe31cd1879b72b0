import type { IdempotencyKeys } from "../domain/ports/idempotency-keys.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { Pool } from "./pool.ts";

/**
 * `Idempotency-Key`s for 24 hours from the first request. Of several that begin at once, the unique index
 * makes exactly one fresh.
 */
export function createIdempotencyKeys({ pool }: { pool: Pool }): IdempotencyKeys {
  return {
    async begin({ account, scope, key, fingerprint, retakeAfterMs }) {
      for (;;) {
        const taken = await pool.query<{ token: string }>(
          `insert into idempotency_keys as i (account, scope, key, token, fingerprint)
           values ($1, $2, $3, uuidv7(), $4)
           on conflict (account, scope, key) do update set token = excluded.token,
             fingerprint = excluded.fingerprint, started_at = now(), status = null, body = null
           where i.started_at <= now() - interval '24 hours'
             or (i.status is null and i.fingerprint = excluded.fingerprint
               and i.started_at <= now() - make_interval(secs => $5::float8 / 1000))
           returning token`,
          [account, scope, key, fingerprint, retakeAfterMs ?? null],
        );
        const [fresh] = taken.rows;
        if (fresh !== undefined) return { kind: "fresh", token: fresh.token };
        const { rows } = await pool.query<{
          fingerprint: string;
          status: number | null;
          body: string | null;
          forMs: number;
        }>(
          `select fingerprint, status, body,
             greatest(0, floor(extract(epoch from now() - started_at) * 1000))::float8 as "forMs"
           from idempotency_keys where account = $1 and scope = $2 and key = $3`,
          [account, scope, key],
        );
        const [held] = rows;
        // Abandoned between the two statements: it is free again.
        if (held === undefined) continue;
        if (held.fingerprint !== fingerprint) return { kind: "mismatch" };
        if (held.status === null || held.body === null)
          return { kind: "in_flight", forMs: held.forMs };
        return { kind: "replay", status: held.status, body: held.body };
      }
    },
    async complete(token, { status, body }) {
      await pool.query(
        "update idempotency_keys set status = $2, body = $3 where token = $1 and status is null",
        [token, status, body],
      );
    },
    async abandon(token) {
      await pool.query("delete from idempotency_keys where token = $1 and status is null", [token]);
    },
  };
}

/** For the retention task. */
export async function deleteExpiredIdempotencyKeys(
  options: { pool: Pool } & Batches,
): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "idempotency_keys",
    where: "started_at <= now() - interval '24 hours'",
    oldestFirst: "started_at",
  });
}
