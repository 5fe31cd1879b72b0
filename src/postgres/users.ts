import type { User, UserRole } from "../domain/account.ts";
import { normaliseAddress, parseAddress } from "../domain/address.ts";
import { InvalidInput } from "../domain/findings.ts";
import type { Finding } from "../domain/findings.ts";
import { LastOwner, type Users } from "../domain/ports/accounts.ts";
import { instantOf } from "./instant-of.ts";
import { hashPassword, passwordMatches, UNKNOWN_USER_HASH } from "./password-hash.ts";
import { isUuid } from "./uuid.ts";
import { transaction, type Pool, type Queryable } from "./pool.ts";

/** The columns of a User, for a table alias `u`. */
export const USER_COLUMNS = `u.id, u.account, u.email, u.role, u.admin,
  u.password_hash is not null as "hasPassword",
  ${instantOf("u.created_at")} as "createdAt"`;

/** NIST SP 800-63B: at least 8 characters, no rule about their kinds, long ones welcome. */
const MIN_PASSWORD = 8;
const MAX_PASSWORD = 256;

/** Dashboard users. An e-mail address belongs to one user of the whole installation. */
export function createUsers({ pool }: { pool: Pool }): Users {
  return {
    async create({ account, email, password, role = "owner", admin = false }) {
      const address = parseAddress(email);
      const findings: Finding[] = [...passwordFindings(password)];
      if (address.kind === "invalid") findings.push({ field: "email", message: address.reason });
      if (findings.length > 0 || address.kind === "invalid") throw new InvalidInput(findings);
      if (!isUuid(account)) throw unknownAccount(account);
      const hash = await hashPassword(password);
      try {
        const { rows } = await pool.query<User>(
          `insert into users as u (account, email, password_hash, role, admin)
           select id, $2, $3, $4, $5 from accounts where id = $1 and deleted_at is null
           returning ${USER_COLUMNS}`,
          [account, normaliseAddress(address.address), hash, role, admin],
        );
        if (rows[0] === undefined) throw unknownAccount(account);
        return rows[0];
      } catch (error) {
        if ((error as { constraint?: unknown }).constraint === "users_email_key")
          throw new InvalidInput([
            { field: "email", message: "there is a user with this address already" },
          ]);
        throw error;
      }
    },
    async verify(email, password) {
      const address = parseAddress(email);
      const { rows } = await pool.query<User & { hash: string | null }>(
        `select u.password_hash as hash, ${USER_COLUMNS}
         from users u join accounts a on a.id = u.account
         where u.email = $1 and a.deleted_at is null`,
        [address.kind === "valid" ? normaliseAddress(address.address) : ""],
      );
      const [found] = rows;
      // The same work for a user who is not there: the answer's time tells nobody who is.
      const matches =
        password.length <= MAX_PASSWORD &&
        (await passwordMatches(password, found?.hash ?? UNKNOWN_USER_HASH));
      if (!matches || found === undefined) return undefined;
      const { hash: _, ...user } = found;
      return user;
    },
    async get(id) {
      if (!isUuid(id)) return undefined;
      const { rows } = await pool.query<User>(
        `select ${USER_COLUMNS} from users u join accounts a on a.id = u.account
         where u.id = $1 and a.deleted_at is null`,
        [id],
      );
      return rows[0];
    },
    async list(account) {
      if (!isUuid(account)) return [];
      const { rows } = await pool.query<User>(
        `select ${USER_COLUMNS} from users u where u.account = $1 order by u.created_at, u.id`,
        [account],
      );
      return rows;
    },
    async setPassword(id, password) {
      const findings = passwordFindings(password);
      if (findings.length > 0) throw new InvalidInput(findings);
      const hash = await hashPassword(password);
      const { rowCount } = isUuid(id)
        ? await pool.query("update users set password_hash = $2 where id = $1", [id, hash])
        : { rowCount: 0 };
      if (rowCount === 0)
        throw new InvalidInput([{ field: "user", message: `there is no user ${id}` }]);
    },
    async setRole(account, id, role) {
      return ownersKept(account, id, role === "owner", async (client) => {
        const { rows } = await client.query<User>(
          `update users u set role = $3 where account = $1 and id = $2 returning ${USER_COLUMNS}`,
          [account, id, role],
        );
        return rows[0];
      });
    },
    async delete(account, id) {
      const deleted = await ownersKept(account, id, false, async (client) => {
        await client.query("delete from users where account = $1 and id = $2", [account, id]);
        return true;
      });
      return deleted ?? false;
    },
  };

  /** Undefined: no such user. Throws LastOwner when nobody would be owner afterwards. */
  async function ownersKept<T>(
    account: string,
    id: string,
    staysOwner: boolean,
    change: (client: Queryable) => Promise<T>,
  ): Promise<T | undefined> {
    if (!isUuid(account) || !isUuid(id)) return undefined;
    return transaction(pool, async (client) => {
      // All owners are locked, in one order: two who leave at once do not both count on the other.
      const { rows } = await client.query<{ id: string; role: UserRole }>(
        `select id, role from users where account = $1 and (role = 'owner' or id = $2)
          order by id for update`,
        [account, id],
      );
      const user = rows.find((row) => row.id === id);
      if (!user) return undefined;
      const owners = rows.filter(({ role }) => role === "owner");
      if (user.role === "owner" && !staysOwner && owners.length === 1) throw new LastOwner();
      return change(client);
    });
  }
}

function passwordFindings(password: string): Finding[] {
  const ok = Array.from(password).length >= MIN_PASSWORD && password.length <= MAX_PASSWORD;
  return ok
    ? []
    : [{ field: "password", message: `must be ${MIN_PASSWORD} to ${MAX_PASSWORD} characters` }];
}

function unknownAccount(account: string): InvalidInput {
  return new InvalidInput([{ field: "account", message: `there is no account ${account}` }]);
}
