import { randomUUID } from "node:crypto";
import type { Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { IdempotencyKeys } from "../domain/ports/idempotency-keys.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { Pool } from "./pool.ts";

/** Milliseconds between two tries to write what an outage kept from being written. */
const AGAIN_MS = 1_000;
/** After which PostgreSQL is over with a statement without an answer, of which it carries out 10 s. */
const UNANSWERED_MS = 16_000;
/** Keys that are to be freed then: those of a busy minute. */
const MOST_FREED = 50_000;
/** Answers that are to be kept then: one may have 256 KiB. */
const MOST_KEPT = 200;

/**
 * `Idempotency-Key`s for 24 hours from the first request. Of several that begin at once, the unique index
 * makes exactly one fresh. What becomes of a key is written after an outage if it could not be before: one that is left in
 * flight would say for 24 hours that a mail may have been sent.
 */
export function createIdempotencyKeys({
  pool,
  timers,
}: {
  pool: Pool;
  timers: Timers;
}): IdempotencyKeys & {
  /** Resolves when nothing of what an outage kept from being written is left. */
  written(): Promise<void>;
} {
  /** By token: what is still to be written. The unanswered ones may only be begun when they have been freed. */
  const toFree = new Map<string, "begun" | "unanswered">();
  const toKeep = new Map<string, { status: number; body: string }>();
  let waiting = false;
  let whenWritten: (() => void)[] = [];

  const free = (tokens: readonly string[]) =>
    pool.query("delete from idempotency_keys where token = any($1::uuid[]) and status is null", [
      tokens,
    ]);

  const keep = (token: string, { status, body }: { status: number; body: string }) =>
    pool.query(
      "update idempotency_keys set status = $2, body = $3 where token = $1 and status is null",
      [token, status, body],
    );

  /** Rejects as `write` does, and then has `remember` tell what is written later. */
  async function orLater<T>(write: () => Promise<T>, remember: () => void): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if (error instanceof DependencyUnavailable) {
        remember();
        if (!waiting) writeLater();
      }
      throw error;
    }
  }

  function freeLater(token: string, beginning: "begun" | "unanswered"): void {
    if (toFree.size < MOST_FREED) toFree.set(token, beginning);
  }

  /** So more than once. */
  function freeOnceMore(tokens: readonly string[]): void {
    if (tokens.length === 0) return;
    timers.after(UNANSWERED_MS, () => {
      for (const token of tokens) freeLater(token, "begun");
      if (!waiting) writeLater();
    });
  }

  function writeLater(): void {
    waiting = !pool.ending;
    if (waiting) timers.after(AGAIN_MS, () => void writeAgain());
    else tellWritten();
  }

  function tellWritten(): void {
    for (const tell of whenWritten) tell();
    whenWritten = [];
  }

  async function writeAgain(): Promise<void> {
    try {
      // More may come while the last is written.
      while (toFree.size + toKeep.size > 0) {
        const freed = [...toFree];
        if (freed.length > 0) await free(freed.map(([token]) => token));
        for (const [token] of freed) toFree.delete(token);
        freeOnceMore(freed.flatMap(([token, how]) => (how === "unanswered" ? token : [])));
        for (const [token, answer] of toKeep) {
          await keep(token, answer);
          toKeep.delete(token);
        }
      }
      waiting = false;
      tellWritten();
    } catch (error) {
      // What is refused for another reason would be so for ever.
      if (!(error instanceof DependencyUnavailable)) toKeep.clear();
      writeLater();
    }
  }

  return {
    async begin({ account, scope, key, fingerprint, retakeAfterMs }) {
      for (;;) {
        // Made here: where no answer comes, nothing is begun, and the key may be taken all the same.
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
          freeLater(token, "unanswered");
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
          if (toKeep.size < MOST_KEPT) toKeep.set(token, answer);
        },
      );
    },
    abandon: async (token) => {
      await orLater(
        () => free([token]),
        () => {
          freeLater(token, "begun");
        },
      );
    },
    written: async () => {
      if (waiting) await new Promise<void>((resolve) => whenWritten.push(resolve));
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
