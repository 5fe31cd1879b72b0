import { randomUUID } from "node:crypto";
import type { Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { IdempotencyKeys } from "../domain/ports/idempotency-keys.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { Pool } from "./pool.ts";
import {
  createPendingKeyWrites,
  type KeptAnswer,
  type PendingKeyWrites,
} from "./pending-key-writes.ts";

/**
 * `Idempotency-Key`s for 24 hours from the first request. When several requests begin at once, the unique index makes
 * exactly one of them fresh. What an outage keeps from being written is written after it: a key that is left in flight
 * would say for 24 hours that a mail may have been sent.
 */
export function createIdempotencyKeys({
  pool,
  timers,
  report,
}: {
  pool: Pool;
  timers: Timers;
  /** Hears of errors after the answer that are no outage. */
  report: (error: unknown) => void;
}): IdempotencyKeys & Pick<PendingKeyWrites, "written"> {
  const free = (tokens: readonly string[]) =>
    pool.query("delete from idempotency_keys where token = any($1::uuid[]) and status is null", [
      tokens,
    ]);
  const keep = (token: string, { status, body }: KeptAnswer) =>
    pool.query(
      "update idempotency_keys set status = $2, body = $3 where token = $1 and status is null",
      [token, status, body],
    );
  const pending = createPendingKeyWrites({ free, keep, timers, report, ending: () => pool.ending });

  return {
    async begin({ account, scope, key, fingerprint, retakeAfterMs }) {
      for (;;) {
        // Made here, so that the key can be freed if no answer comes: it may be taken, but the work is not begun.
        const token = randomUUID();
        const take = () =>
          pool.query(
            `insert into idempotency_keys as i (account, scope, key, token, fingerprint)
             values ($1, $2, $3, $6, $4)
             on conflict (account, scope, key) do update set token = excluded.token,
               fingerprint = excluded.fingerprint, started_at = now(), status = null, body = null
             where i.started_at <= now() - interval '24 hours'
               or (i.status is null and i.fingerprint = excluded.fingerprint
                 and i.started_at <= now() - make_interval(secs => $5::float8 / 1000))
             returning token`,
            [account, scope, key, fingerprint, retakeAfterMs ?? null, token],
          );
        const taken = await orLater(take, () => {
          pending.free(token, "unanswered");
        });
        if (taken.rowCount === 1) return { kind: "fresh", token };
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
    complete: async (token, answer) => {
      await orLater(
        () => keep(token, answer),
        () => {
          pending.keep(token, answer);
        },
      );
    },
    abandon: async (token) => {
      await orLater(
        () => free([token]),
        () => {
          pending.free(token, "begun");
        },
      );
    },
    written: () => pending.written(),
  };
}

/** Rejects as `write` does; calls `later` if that was an outage. */
async function orLater<T>(write: () => Promise<T>, later: () => void): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (error instanceof DependencyUnavailable) later();
    throw error;
  }
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
