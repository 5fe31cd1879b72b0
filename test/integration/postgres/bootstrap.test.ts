import { beforeEach, expect, test } from "vitest";
import { bootstrap, firstAccount } from "../../../cmd/bootstrap.ts";
import type { Configuration } from "../../../src/configuration/configuration.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createUsers } from "../../../src/postgres/users.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

let database: TestDatabase;
let pool: Pool;
beforeEach(async () => {
  database = await createTestDatabase();
  pool = database.pool();
  return () => database.drop();
});

const FIRST = {
  bootstrapAccount: "default",
  bootstrapEmail: "ada@example.com",
  bootstrapPassword: "correct horse battery",
};
const start = async (configuration: Partial<Configuration>): Promise<string[]> => {
  const said: string[] = [];
  await bootstrap({
    first: firstAccount(configuration as Configuration),
    databaseUrl: database.url,
    say: (line) => said.push(line),
  });
  return said;
};
/**
 * The accounts with their namespaces, and the users of the first one, with whether they administer the installation.
 */
const made = async () => {
  const [account, ...others] = await createAccounts({ pool }).list();
  const users = account === undefined ? [] : await createUsers({ pool }).list(account.id);
  return {
    accounts: [account, ...others].map((each) => [each?.name, each?.namespace]),
    users: users.map(({ email, admin }) => [email, admin]),
  };
};

test("the first account and its user, once in a database's life", async () => {
  expect(await start(FIRST)).toEqual([
    "Created the account default",
    "Created the user ada@example.com of the account default",
  ]);
  const users = [["ada@example.com", true]];
  expect(await made()).toEqual({ accounts: [["default", null]], users });
  expect(await start({ ...FIRST, bootstrapAccount: "another" })).toEqual([]);
  expect(await made()).toEqual({ accounts: [["default", null]], users });
});

test("a name with two spaces in a row is refused, but not if the account has it already", async () => {
  const first = { ...FIRST, bootstrapAccount: "two  spaces" };
  await expect(start(first)).rejects.toThrow(
    "CARILLON_BOOTSTRAP_ACCOUNT: must not have two spaces in a row",
  );
  await pool.query("insert into accounts (name) values ($1)", [first.bootstrapAccount]);
  expect(await start(first)).toEqual([
    "Created the user ada@example.com of the account two  spaces",
  ]);
});

test("a common password is refused, but not if the user is there already", async () => {
  const first = { ...FIRST, bootstrapPassword: "changeme123" };
  await expect(start(first)).rejects.toThrow(
    "CARILLON_BOOTSTRAP_PASSWORD: is one of the first that are guessed",
  );
  // As an earlier release made it.
  expect(await start(FIRST)).toEqual(["Created the user ada@example.com of the account default"]);
  expect(await start(first)).toEqual([]);
});

test("a try that died half-way is finished", async () => {
  await createAccounts({ pool }).create({ name: "default" });
  expect(await start(FIRST)).toEqual(["Created the user ada@example.com of the account default"]);
  const users = [["ada@example.com", true]];
  expect(await made()).toEqual({ accounts: [["default", null]], users });
});

test("what an operator has made before stays as it is: its namespace, and its users", async () => {
  const account = await createAccounts({ pool }).create({
    name: "default",
    namespace: "elsewhere",
  });
  const { bootstrapPassword: password } = FIRST;
  await createUsers({ pool }).create({ account: account.id, email: "bob@example.com", password });
  // Only what was done is reported.
  expect(await start({ ...FIRST, bootstrapNamespace: "team-a" })).toEqual([]);
  expect(await made()).toEqual({
    accounts: [["default", "elsewhere"]],
    users: [["bob@example.com", false]],
  });
});
