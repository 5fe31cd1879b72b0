import type { User } from "../domain/account.ts";
import { normaliseAddress, parseAddress } from "../domain/address.ts";
import type { Identities, ProviderPerson } from "../domain/ports/single-sign-on.ts";
import { acceptInvitation, lockInvitation } from "./invitations.ts";
import { transaction, type Pool } from "./pool.ts";
import { USER_COLUMNS } from "./users.ts";

const LIVE_USERS = "users u join accounts a on a.id = u.account and a.deleted_at is null";

export function createIdentities({ pool }: { pool: Pool }): Identities {
  async function known({ issuer, subject }: ProviderPerson): Promise<User | undefined> {
    const { rows } = await pool.query<User>(
      `select ${USER_COLUMNS} from ${LIVE_USERS} join user_identities i on i.user_id = u.id
        where i.issuer = $1 and i.subject = $2`,
      [issuer, subject],
    );
    return rows[0];
  }

  return {
    async userOf(person) {
      const user = await known(person);
      if (user) return { kind: "user", user };
      const { issuer, subject, email, emailVerified } = person;
      if (email === undefined || !emailVerified || parseAddress(email).kind === "invalid")
        return { kind: "unverified" };
      // The user is locked like the foreign key locks it, so that this waits for a removal under way instead of
      // failing. Unique keys decide: of two people who come at once with one address, one is remembered.
      const { rowCount } = await pool.query(
        `with found as materialized (
           select u.id from ${LIVE_USERS} where u.email = $3 for key share of u
         ), added as (
           insert into user_identities (issuer, subject, user_id)
           select $1, $2, id from found on conflict do nothing
         )
         select from found`,
        [issuer, subject, normaliseAddress(email)],
      );
      if (rowCount === 0) return { kind: "unknown" };
      const remembered = await known(person);
      return remembered ? { kind: "user", user: remembered } : { kind: "taken" };
    },

    async accept(token, { issuer, subject, email, emailVerified }) {
      const address = email !== undefined && emailVerified ? normaliseAddress(email) : undefined;
      return transaction(pool, async (client) => {
        const invitation = await lockInvitation(client, token);
        if (!invitation) return { kind: "invitation" };
        if (invitation.email !== address) return { kind: "other_address" };
        const user = await acceptInvitation(client, invitation, null);
        await client.query(
          "insert into user_identities (issuer, subject, user_id) values ($1, $2, $3)",
          [issuer, subject, user.id],
        );
        return { kind: "user", user };
      });
    },
  };
}
