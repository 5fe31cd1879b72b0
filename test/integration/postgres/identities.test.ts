import { beforeAll, expect, test } from "vitest";
import type { ProviderPerson } from "../../../src/domain/ports/single-sign-on.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { createIdentities } from "../../../src/postgres/identities.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

const EMAIL = "leaving@example.com";
const PERSON: ProviderPerson = {
  issuer: "https://id.example.com",
  subject: "leaving",
  email: EMAIL,
  emailVerified: true,
};

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

test("who is being removed during the first sign-in is nobody's user", async () => {
  const account = (await createAccounts({ pool }).create({ name: "left" })).id;
  const user = await createUsers({ pool }).create({
    account,
    email: EMAIL,
    password: "eight chars",
  });
  const removal = await openTransaction(pool, "delete from users where id = $1", [user.id]);
  const found = createIdentities({ pool }).userOf(PERSON);
  await untilLockWaits(pool);
  await removal.commit();
  expect(await found).toEqual({ kind: "unknown" });
});
