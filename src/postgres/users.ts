import { MAX_PASSWORD, type User, type UserRole } from "../domain/account.ts";
import { normaliseAddress, parseAddress } from "../domain/address.ts";
import { InvalidInput, type Finding } from "../domain/findings.ts";
import {
  AdministratorsOnly,
  LastAdministrator,
  LastOwner,
  type Actor,
  type Users,
} from "../domain/ports/accounts.ts";
import { isCommonPassword } from "./common-passwords.ts";
import { hashPassword, passwordMatches, UNKNOWN_USER_HASH } from "./password-hash.ts";
import { passwordWork } from "./password-work.ts";
import { unknownAccount } from "./unknown-account.ts";
import { isUuid } from "./uuid.ts";
import { transaction, type Pool, type Queryable } from "./pool.ts";

/** The columns of a User, for a table alias `u`. */
export const USER_COLUMNS = `u.id, u.account, u.email, u.role, u.admin,
  u.password_hash is not null as "hasPassword",
  u.created_at as "createdAt"`;

/** NIST SP 800-63B: at least 8 characters, no rule about their kinds, long ones welcome, common ones refused. */
const MIN_PASSWORD = 8;

/** Dashboard users. An e-mail address belongs to one user of the whole installation. */
export function createUsers({ pool }: { pool: Pool }): Users {
  return {
    async create({ account, email, password, role = "owner", admin = false }) {
      const address = parseAddress(email);
      const findings = userFindings({ email, password });
      if (findings.length > 0 || address.kind === "invalid") throw new InvalidInput(findings);
      if (!isUuid(account)) throw unknownAccount(account);
      const passwordHash = await newPasswordHash(password, email);
      return insertUser(pool, {
        account,
        email: normaliseAddress(address.address),
        passwordHash,
        role,
        admin,
      });
    },
    verify: async ({ email, password, party, first }) =>
      passwordWork.admit(party, async () => {
        await first?.();
        const address = parseAddress(email);
        const { rows } = await pool.query<User & { passwordHash: string | null }>(
          `select u.password_hash as "passwordHash", ${USER_COLUMNS}
           from users u join accounts a on a.id = u.account
           where u.email = $1 and a.deleted_at is null`,
          [address.kind === "valid" ? normaliseAddress(address.address) : ""],
        );
        const [found] = rows;
        // The same work for a user who does not exist, so that the answer's time does not tell.
        const matches =
          password.length <= MAX_PASSWORD &&
          (await passwordMatches(password, found?.passwordHash ?? UNKNOWN_USER_HASH));
        if (!matches || found === undefined || found.passwordHash === null) return undefined;
        const { passwordHash, ...user } = found;
        return { user, passwordHash };
      }),
    async stillVerified({ user, passwordHash }) {
      const { rowCount } = await pool.query(
        "select 1 from users where id = $1 and password_hash is not distinct from $2",
        [user.id, passwordHash],
      );
      return rowCount === 1;
    },
    async replacePassword({ user, passwordHash: old }, password) {
      const passwordHash = await newPasswordHash(password, user.id);
      const replaced = await writePassword(user.id, passwordHash, { old });
      return replaced ? { user, passwordHash } : undefined;
    },
    async byEmail(email) {
      const address = parseAddress(email);
      if (address.kind === "invalid") return undefined;
      const { rows } = await pool.query<User>(
        `select ${USER_COLUMNS} from users u join accounts a on a.id = u.account
         where u.email = $1 and a.deleted_at is null`,
        [normaliseAddress(address.address)],
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
      const hash = await newPasswordHash(password, id);
      if (!isUuid(id) || !(await writePassword(id, hash)))
        throw new InvalidInput([{ field: "user", message: `there is no user ${id}` }]);
    },
    async setRole(account, id, role, by) {
      return changeUser({ account, id, by, becomes: role }, async (client) => {
        const { rows } = await client.query<User>(
          `update users u set role = $3 where account = $1 and id = $2 returning ${USER_COLUMNS}`,
          [account, id, role],
        );
        return rows[0];
      });
    },
    async delete(account, id, by) {
      const deleted = await changeUser({ account, id, by, becomes: "nobody" }, async (client) => {
        await client.query("delete from users where account = $1 and id = $2", [account, id]);
        return true;
      });
      return deleted ?? false;
    },
  };

  /**
   * False: there is no such user, or `only.old` is not their password's hash any more. Ends the sessions in the same
   * transaction: somebody who is told that it failed could not do it again, because the old password is wrong by then.
   * The user is locked against sign-ins: a session that begins meanwhile is ended with the others, or begins when
   * `stillVerified` sees the new password.
   */
  async function writePassword(
    id: string,
    hash: string,
    only?: { old: string | null },
  ): Promise<boolean> {
    return transaction(pool, async (client) => {
      const { rowCount } = await client.query(
        `select from users where id = $1 and ($2 or password_hash is not distinct from $3) for update`,
        [id, only === undefined, only?.old ?? null],
      );
      if (rowCount === 0) return false;
      await client.query("update users set password_hash = $2 where id = $1", [id, hash]);
      await client.query("delete from sessions where user_id = $1", [id]);
      return true;
    });
  }

  /**
   * Runs `change` if there is such a user, and enough owners and administrators are left after it. Undefined: no
   * such user. Throws LastOwner or LastAdministrator when nobody would be left, and AdministratorsOnly when `by`
   * may not do it.
   */
  async function changeUser<T>(
    asked: { account: string; id: string; by: Actor; becomes: UserRole | "nobody" },
    change: (client: Queryable) => Promise<T>,
  ): Promise<T | undefined> {
    const { account, id, by, becomes } = asked;
    if (!isUuid(account) || !isUuid(id)) return undefined;
    return transaction(pool, async (client) => {
      const locked = await lockInCharge(client, account, id);
      const theirs = locked.filter((row) => row.account === account);
      const user = theirs.find((row) => row.id === id);
      if (!user) return undefined;
      if (becomes === "nobody" || (becomes === "member" && user.role === "owner")) {
        if (user.admin && !by.admin) throw new AdministratorsOnly();
        const owners = theirs.filter(({ role }) => role === "owner");
        if (user.role === "owner" && owners.length === 1) throw new LastOwner();
        if (user.admin && locked.filter(({ admin }) => admin).length === 1)
          throw new LastAdministrator();
      }
      return change(client);
    });
  }
}

/** `party`: see `PasswordWork.admit`. Throws InvalidInput, and PasswordsBusy. */
export async function newPasswordHash(password: string, party: string): Promise<string> {
  const findings = passwordFindings(password);
  if (findings.length > 0) throw new InvalidInput(findings);
  return passwordWork.admit(party, () => hashPassword(password));
}

/**
 * Throws InvalidInput for an address that is taken (which ends the transaction), and for an account that does not
 * exist. Waits for an account that is being deleted.
 */
export async function insertUser(
  client: Queryable,
  user: Pick<User, "account" | "email" | "role" | "admin"> & { passwordHash: string | null },
): Promise<User> {
  const { account, email, passwordHash, role, admin } = user;
  try {
    const { rows } = await client.query<User>(
      `insert into users as u (account, email, password_hash, role, admin)
       select id, $2, $3, $4, $5 from accounts where id = $1 and deleted_at is null for share
       returning ${USER_COLUMNS}`,
      [account, email, passwordHash, role, admin],
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
}

/** For a transaction that deletes an account with its users. Throws as if each of them were deleted. */
export async function administratorsKept(
  client: Queryable,
  account: string,
  by: Actor,
): Promise<void> {
  const locked = await lockInCharge(client, account, null);
  const administrators = locked.filter(({ admin }) => admin);
  const theirs = administrators.filter((row) => row.account === account);
  if (theirs.length === 0) return;
  if (!by.admin) throw new AdministratorsOnly();
  if (theirs.length === administrators.length) throw new LastAdministrator();
}

/**
 * Locks and returns the account's owners (and user `also`; null: all of its users) and the installation's
 * administrators, in one order: when two of them leave at once, the second sees that the first is gone. Sign-ins,
 * which only refer to the user's key, go on meanwhile.
 */
async function lockInCharge(
  client: Queryable,
  account: string,
  also: string | null,
): Promise<Pick<User, "id" | "account" | "role" | "admin">[]> {
  const { rows } = await client.query<Pick<User, "id" | "account" | "role" | "admin">>(
    `select id, account, role, admin from users
      where admin or (account = $1 and (role = 'owner' or id = $2 or $2 is null))
      order by id for no key update`,
    [account, also],
  );
  return rows;
}

/**
 * What is wrong with address and password, whether or not there is such a user. That the address is taken, or that the
 * password is a common one, is found when the user is created.
 */
export function userFindings({ email, password }: { email: string; password: string }): Finding[] {
  const findings = lengthFindings(password);
  const address = parseAddress(email);
  if (address.kind === "invalid") findings.push({ field: "email", message: address.reason });
  return findings;
}

/** Of a password that is there already: whether it is one of the common ones counts when it is chosen. */
function lengthFindings(password: string): Finding[] {
  if (Array.from(password).length >= MIN_PASSWORD && password.length <= MAX_PASSWORD) return [];
  const message = `must be ${MIN_PASSWORD} to ${MAX_PASSWORD} characters`;
  return [{ field: "password", message }];
}

function passwordFindings(password: string): Finding[] {
  const findings = lengthFindings(password);
  if (findings.length > 0 || !isCommonPassword(password)) return findings;
  return [{ field: "password", message: "is one of the first that are guessed: choose another" }];
}
