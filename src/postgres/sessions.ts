import { SESSION_DAYS, type User } from "../domain/account.ts";
import type { Sessions } from "../domain/ports/accounts.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import { hashOf, isToken, newToken } from "./bearer-token.ts";
import { USER_COLUMNS } from "./users.ts";
import type { Pool } from "./pool.ts";

/** Dashboard sessions. */
export function createSessions({ pool }: { pool: Pool }): Sessions {
  return {
    async create(user) {
      const token = newToken();
      const { rowCount } = await pool.query(
        // The user is locked like the foreign key locks it, so that this waits for a removal under way instead of
        // failing.
        `insert into sessions (token_hash, user_id, expires_at)
         select $2, id, now() + interval '${SESSION_DAYS} days' from users where id = $1 for key share`,
        [user, hashOf(token)],
      );
      return rowCount === 1 ? { token } : undefined;
    },
    async authenticate(token) {
      if (!isToken(token)) return undefined;
      const { rows } = await pool.query<User & { fresh: boolean }>(
        `select s.created_at > now() - interval '10 minutes' as fresh, ${USER_COLUMNS}
         from sessions s join users u on u.id = s.user_id join accounts a on a.id = u.account
         where s.token_hash = $1 and s.expires_at > now() and a.deleted_at is null`,
        [hashOf(token)],
      );
      const [found] = rows;
      if (found === undefined) return undefined;
      const { fresh, ...user } = found;
      return { user, fresh };
    },
    async delete(token) {
      await pool.query("delete from sessions where token_hash = $1", [hashOf(token)]);
    },
    async deleteAll(user) {
      await pool.query("delete from sessions where user_id = $1", [user]);
    },
  };
}

/** For the retention task. */
export async function deleteExpiredSessions(options: { pool: Pool } & Batches): Promise<number> {
  return deleteInBatches({
    ...options,
    table: "sessions",
    where: "expires_at <= now()",
    oldestFirst: "expires_at",
  });
}
