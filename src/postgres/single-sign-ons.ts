import type { SignInChecks, SingleSignOns } from "../domain/ports/single-sign-on.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import { hashOf, isToken, newToken } from "./bearer-token.ts";
import type { Pool } from "./pool.ts";

export function createSingleSignOns({ pool }: { pool: Pool }): SingleSignOns {
  return {
    async begin({ state, nonce, codeVerifier }) {
      const token = newToken();
      await pool.query(
        `insert into single_sign_ons (token_hash, state, nonce, code_verifier)
         values ($1, $2, $3, $4)`,
        [hashOf(token), state, nonce, codeVerifier],
      );
      return token;
    },
    async take(token) {
      if (!isToken(token)) return undefined;
      const { rows } = await pool.query<SignInChecks & { valid: boolean }>(
        `delete from single_sign_ons where token_hash = $1
         returning state, nonce, code_verifier as "codeVerifier", expires_at > now() as valid`,
        [hashOf(token)],
      );
      const [found] = rows;
      if (found?.valid !== true) return undefined;
      const { state, nonce, codeVerifier } = found;
      return { state, nonce, codeVerifier };
    },
  };
}

/** For the retention task. */
export async function deleteExpiredSingleSignOns(
  options: { pool: Pool } & Batches,
): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "single_sign_ons",
    where: "expires_at <= now()",
    oldestFirst: "expires_at",
  });
}
