import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { UserRole } from "../../../src/domain/account.ts";
import { DAY } from "../../../src/domain/instant.ts";
import type { Invitations } from "../../../src/domain/ports/dashboard.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { newToken } from "../../../src/postgres/bearer-token.ts";
import { createInvitations } from "../../../src/postgres/invitations.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createSessions } from "../../../src/postgres/sessions.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { passwordsWait } from "../../postgres/passwords-wait.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const PASSWORD = "correct horse battery";

let database: TestDatabase;
let pool: Pool;
let account: string;
let email: string;
/** Id of a user who may invite to any account. */
let by: string;
let count = 0;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  const own = await createAccounts({ pool }).create({ name: "of the administrator" });
  const administrator = { account: own.id, email: "admin@example.com", password: PASSWORD };
  by = (await createUsers({ pool }).create({ ...administrator, admin: true })).id;
  return () => database.drop();
});
beforeEach(async () => {
  count += 1;
  account = (await createAccounts({ pool }).create({ name: `invited ${count}` })).id;
  email = `guest${count}@example.com`;
});

async function invite(
  invitations: Invitations,
  to: { account: string; email: string; role: UserRole; by?: string },
) {
  const made = await invitations.create({ by, ...to });
  if (!made) throw new Error("whoever invites is gone");
  return made;
}

/** A pool of one connection, so that statements are executed in order. */
function inOrder(): Pool {
  return (oneByOne ??= database.pool({ max: 1 }));
}
let oneByOne: Pool | undefined;

describe("an invitation that is accepted, while the password waits for its turn,", () => {
  test("and withdrawn meanwhile makes no user", async () => {
    const invitations = createInvitations({ pool: inOrder() });
    const { invitation, token } = await invite(invitations, { account, email, role: "member" });
    const passwords = passwordsWait();
    const accepted = invitations.accept(token, PASSWORD, "client");
    expect(await invitations.delete(account, invitation.id)).toBe(true);
    passwords.go();
    expect(await accepted).toBeUndefined();
    expect(await createUsers({ pool }).list(account)).toEqual([]);
  });

  test("and whose account is deleted meanwhile makes no user", async () => {
    const invitations = createInvitations({ pool: inOrder() });
    const { token } = await invite(invitations, { account, email, role: "owner" });
    const passwords = passwordsWait();
    const accepted = invitations.accept(token, PASSWORD, "client");
    await createAccounts({ pool: inOrder() }).delete(account);
    passwords.go();
    expect(await accepted).toBeUndefined();
  });

  test("and replaced by one with less rights makes no user", async () => {
    const invitations = createInvitations({ pool: inOrder() });
    const { token } = await invite(invitations, { account, email, role: "owner" });
    const passwords = passwordsWait();
    const accepted = invitations.accept(token, PASSWORD, "client");
    await invite(invitations, { account, email, role: "member" });
    passwords.go();
    expect(await accepted).toBeUndefined();
  });
});

test("of two who use one link at once the second finds it gone", async () => {
  const invitations = createInvitations({ pool });
  const { invitation, token } = await invite(invitations, { account, email, role: "member" });
  const other = await openTransaction(pool, "select 1 from invitations where id = $1 for update", [
    invitation.id,
  ]);
  const accepted = Promise.all(
    ["one", "two"].map((client) => invitations.accept(token, PASSWORD, client)),
  );
  await untilLockWaits(pool, 2);
  await other.commit();
  const emails = (await accepted).map((user) => user?.email);
  expect(new Set(emails)).toEqual(new Set([email, undefined]));
});

test("an invitation lasts a week, and one that is repeated a week more", async () => {
  const invitations = createInvitations({ pool });
  const to = { account, email, role: "member" } as const;
  await invite(invitations, to);
  await pool.query("update invitations set expires_at = now() where account = $1", [account]);
  const { invitation, token } = await invite(invitations, to);
  expect(invitation.expiresAt - invitation.createdAt).toBe(7 * DAY);
  expect(await invitations.find(token)).toMatchObject({ id: invitation.id });
});

test("nobody is invited to an account that is deleted, whoever did it", async () => {
  const invitations = createInvitations({ pool });
  const { token } = await invite(invitations, { account, email, role: "owner" });
  await createAccounts({ pool }).delete(account);
  expect(await invitations.find(token)).toBeUndefined();
  expect(await invitations.create({ account, email, role: "owner", by })).toBeUndefined();
});

test("who was an administrator has invited nobody to the accounts of others", async () => {
  const own = await createAccounts({ pool }).create({ name: `of administrator ${count}` });
  const made = { account: own.id, email: `then${count}@example.com`, password: PASSWORD };
  const { id } = await createUsers({ pool }).create({ ...made, admin: true });
  const invitations = createInvitations({ pool });
  const [theirs, others] = [
    await invite(invitations, { account: own.id, email, role: "owner", by: id }),
    await invite(invitations, { account, email, role: "owner", by: id }),
  ];
  await pool.query("update users set admin = false where id = $1", [id]);
  expect(await invitations.find(theirs.token)).toBeDefined();
  expect(await invitations.find(others.token)).toBeUndefined();
});

test("a link that is none has no password judged, nor hashed", async () => {
  const invitations = createInvitations({ pool });
  for (const password of ["short", PASSWORD])
    expect(await invitations.accept(newToken(), password, "party")).toBeUndefined();
});

test("somebody who is being removed invites nobody and signs in no more", async () => {
  const inviter = await createUsers({ pool }).create({
    account,
    email: `inviter${count}@example.com`,
    password: PASSWORD,
  });
  const removal = await openTransaction(pool, "delete from users where id = $1", [inviter.id]);
  const to = { account, email, role: "owner", by: inviter.id } as const;
  const tried = Promise.all([
    createInvitations({ pool }).create(to),
    createSessions({ pool }).create(inviter.id),
  ]);
  await untilLockWaits(pool, 2);
  await removal.commit();
  expect(await tried).toEqual([undefined, undefined]);
});

test("of two accounts' invitations that one person accepts at once, one counts", async () => {
  const invitations = createInvitations({ pool });
  const other = await createAccounts({ pool }).create({ name: "the other" });
  const tokens: string[] = [];
  for (const to of [account, other.id])
    tokens.push((await invite(invitations, { account: to, email, role: "member" })).token);
  const accepted = await Promise.allSettled(
    tokens.map((token) => invitations.accept(token, PASSWORD, "client")),
  );
  const users = accepted.flatMap((each) =>
    each.status === "fulfilled" && each.value ? [each.value] : [],
  );
  expect(users.map((user) => user.email)).toEqual([email]);
  for (const token of tokens) expect(await invitations.find(token)).toBeUndefined();
});

test("a user who is made while the account is deleted does not keep the address", async () => {
  const users = createUsers({ pool });
  const deletion = await openTransaction(
    pool,
    "update accounts set deleted_at = now() where id = $1",
    [account],
  );
  await deletion.client.query("delete from users where account = $1", [account]);
  const made = users.create({ account, email, password: PASSWORD }).then(
    () => "made",
    () => "refused",
  );
  await Promise.race([made, untilLockWaits(pool)]);
  await deletion.commit();
  expect(await made).toBe("refused");
  const elsewhere = await createAccounts({ pool }).create({ name: "elsewhere" });
  expect(await users.create({ account: elsewhere.id, email, password: PASSWORD })).toMatchObject({
    email,
  });
});
