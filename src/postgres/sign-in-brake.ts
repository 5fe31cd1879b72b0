import { createHash } from "node:crypto";
import { normaliseAddress } from "../domain/address.ts";
import type { SignInBrake } from "../domain/ports/dashboard.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import type { Pool } from "./pool.ts";

/** Tries without a wait. */
const FREE_TRIES = 5;
/** Seconds. The wait begins with one second and doubles with each further try. */
const LONGEST_WAIT = 300;
/** After so long without a try a guesser starts afresh. */
const MEMORY = "1 hour";

export function createSignInBrake({ pool }: { pool: Pool }): SignInBrake {
  return {
    async take(email, client) {
      const key = guesser(email, client);
      const wait = `least(${LONGEST_WAIT}, power(2, least(f.failures + 1 - ${FREE_TRIES}, 20)))`;
      const fresh = `f.last_at < clock_timestamp() - interval '${MEMORY}'`;
      // One statement: parallel guesses wait for the row's lock, and each sees the one before. clock_timestamp() is
      // read after the lock; now() may be older than the moment that the guess before has set.
      const { rowCount } = await pool.query(
        `insert into sign_in_failures as f (guesser, failures) values ($1, 1)
         on conflict (guesser) do update set
           failures = case when ${fresh} then 1 else f.failures + 1 end,
           last_at = clock_timestamp(),
           next_at = case when ${fresh} or f.failures + 1 < ${FREE_TRIES} then clock_timestamp()
                          else clock_timestamp() + ${wait} * interval '1 second' end
         where f.next_at <= clock_timestamp()`,
        [key],
      );
      if (rowCount === 1) return { kind: "go" };
      const { rows } = await pool.query<{ seconds: number }>(
        `select greatest(1, ceil(extract(epoch from next_at - now())))::int as seconds
           from sign_in_failures where guesser = $1`,
        [key],
      );
      return { kind: "wait", retryAfterSeconds: rows[0]?.seconds ?? 1 };
    },
    async forget(email, client) {
      await pool.query("delete from sign_in_failures where guesser = $1", [guesser(email, client)]);
    },
  };
}

/** For the retention task. */
export async function deleteOldSignInFailures(options: { pool: Pool } & Batches): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "sign_in_failures",
    where: `last_at < now() - interval '${MEMORY}'`,
    oldestFirst: "last_at",
  });
}

/** A hash, so that the table does not tell who tried to sign in from where. */
function guesser(email: string, client: string): Buffer {
  return createHash("sha256")
    .update(JSON.stringify([normaliseAddress(email), client]))
    .digest();
}
