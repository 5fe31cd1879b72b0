import { INVITATION_DAYS, type User } from "../domain/account.ts";
import { normaliseAddress, parseAddress } from "../domain/address.ts";
import { InvalidInput } from "../domain/findings.ts";
import type { Invitation, Invitations } from "../domain/ports/dashboard.ts";
import { deleteInBatches, type Batches } from "./batches.ts";
import { hashOf, isToken, newToken } from "./bearer-token.ts";
import { transaction, type Pool, type Queryable } from "./pool.ts";
import { insertUser, newPasswordHash } from "./users.ts";
import { isUuid } from "./uuid.ts";

const COLUMNS = `i.id, i.account, i.email, i.role, i.created_at as "createdAt",
  i.expires_at as "expiresAt"`;

/** SQL: whether invitation `i` is valid. */
const VALID = `i.expires_at > now() and (i.invited_by is null or exists (
  select 1 from users u where u.id = i.invited_by
    and (u.admin or (u.role = 'owner' and u.account = i.account))))`;

/** Links that make their holder a user of an account. */
export function createInvitations({ pool }: { pool: Pool }): Invitations {
  async function find(token: string): Promise<(Invitation & { accountName: string }) | undefined> {
    if (!isToken(token)) return undefined;
    const { rows } = await pool.query<Invitation & { accountName: string }>(
      `select ${COLUMNS}, a.name as "accountName"
         from invitations i join accounts a on a.id = i.account
        where i.token_hash = $1 and ${VALID} and a.deleted_at is null`,
      [hashOf(token)],
    );
    return rows[0];
  }

  return {
    async create({ account, email, role, by }) {
      const address = parseAddress(email);
      if (address.kind === "invalid")
        throw new InvalidInput([{ field: "email", message: address.reason }]);
      if (!isUuid(account) || !isUuid(by)) return undefined;
      const normalised = normaliseAddress(address.address);
      const taken = await pool.query("select 1 from users where email = $1", [normalised]);
      if (taken.rowCount !== 0)
        throw new InvalidInput([
          { field: "email", message: "there is a user with this address already" },
        ]);
      const token = newToken();
      const { rows } = await pool.query<Invitation>(
        // The user is locked like the foreign key locks it, so that this waits for a removal under way instead of
        // failing.
        `insert into invitations as i (account, email, role, token_hash, expires_at, invited_by)
         select a.id, $2, $3, $4, now() + interval '${INVITATION_DAYS} days', u.id
           from accounts a, users u where a.id = $1 and a.deleted_at is null and u.id = $5
            for key share of u
         on conflict (account, email) do update set role = excluded.role,
           token_hash = excluded.token_hash, created_at = now(), expires_at = excluded.expires_at,
           invited_by = excluded.invited_by
         returning ${COLUMNS}`,
        [account, normalised, role, hashOf(token), by],
      );
      const [invitation] = rows;
      return invitation && { invitation, token };
    },

    async list(account) {
      if (!isUuid(account)) return [];
      const { rows } = await pool.query<Invitation>(
        `select ${COLUMNS} from invitations i
          where i.account = $1 and ${VALID} order by i.created_at, i.id`,
        [account],
      );
      return rows;
    },

    find,

    async accept(token, password, party) {
      // Hashing is only for valid tokens, and comes before the transaction: a password that is refused leaves the
      // link valid.
      if (!(await find(token))) return undefined;
      const passwordHash = await newPasswordHash(password, party);
      return transaction(pool, async (client) => {
        const invitation = await lockInvitation(client, token);
        return invitation && acceptInvitation(client, invitation, passwordHash);
      });
    },

    async delete(account, id) {
      if (!isUuid(account) || !isUuid(id)) return false;
      const { rowCount } = await pool.query(
        "delete from invitations where account = $1 and id = $2",
        [account, id],
      );
      return rowCount === 1;
    },
  };
}

export type LockedInvitation = Pick<Invitation, "account" | "email" | "role">;

/**
 * For the transaction that accepts an invitation. Undefined: somebody else has just used the link, or the
 * invitation was withdrawn or the account deleted meanwhile.
 */
export async function lockInvitation(
  client: Queryable,
  token: string,
): Promise<LockedInvitation | undefined> {
  const { rows } = await client.query<LockedInvitation>(
    `select i.account, i.email, i.role from invitations i
       join accounts a on a.id = i.account and a.deleted_at is null
      where i.token_hash = $1 and ${VALID} for update of i for share of a`,
    [hashOf(token)],
  );
  return rows[0];
}

/** Throws InvalidInput as `insertUser` does. */
export async function acceptInvitation(
  client: Queryable,
  { account, email, role }: LockedInvitation,
  passwordHash: string | null,
): Promise<User> {
  const user = await insertUser(client, { account, email, role, admin: false, passwordHash });
  await client.query("delete from invitations where email = $1", [email]);
  return user;
}

/** For the retention task. */
export async function deleteExpiredInvitations(options: { pool: Pool } & Batches): Promise<number> {
  return deleteInBatches({ ...options, table: "invitations", where: "expires_at <= now()" });
}
