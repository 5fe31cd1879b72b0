import { describe, expect, test } from "vitest";
import type { SmtpSettings } from "../../../src/domain/account.ts";
import { encryptionKeys } from "../../../src/standalone/encryption-keys.ts";
import { createCredentials, followMailCatcher } from "../../../src/standalone/first-start.ts";

const CATCHER = { host: "127.0.0.1", smtpPort: 1025 };
/** Settings that an owner has made. */
const OWN = {
  host: "mail.example",
  port: 587,
  username: "u",
  password: "p",
  from: "a@mail.example",
  tls: "starttls" as const,
};

/** The part of an installation that a first start sees. */
function installation() {
  const accounts: string[] = [];
  const keys: string[] = [];
  const users: { id: string; email: string; password: string; admin: boolean }[] = [];
  const smtp = new Map<string, Omit<SmtpSettings, "revision">>();
  const stores = {
    accounts: {
      byName: async (name: string) =>
        accounts.includes(name) ? { id: `id of ${name}` } : undefined,
      create: async ({ name }: { name: string }) => {
        accounts.push(name);
        return { id: `id of ${name}` };
      },
    },
    apiKeys: {
      create: async () => {
        keys.push(`key ${keys.length + 1}`);
        return { raw: keys.at(-1) };
      },
    },
    smtpSettings: {
      get: async (account: string) => smtp.get(account),
      set: async (account: string, settings: Omit<SmtpSettings, "revision">) => {
        smtp.set(account, settings);
      },
    },
    users: {
      list: async () => users,
      create: async (user: { email: string; password: string; admin: boolean }) => {
        users.push({ id: `user ${users.length + 1}`, ...user });
      },
      setPassword: async (id: string, password: string) => {
        for (const user of users) if (user.id === id) user.password = password;
      },
    },
  } as unknown as Parameters<typeof createCredentials>[0];
  return { stores, accounts, keys, users, smtp };
}

describe("a first start", () => {
  test("makes an account that can send, and whoever reads what it prints its administrator", async () => {
    const { stores, accounts, users, smtp } = installation();
    const { apiKey, email, password } = await createCredentials(stores, CATCHER);
    expect(accounts).toEqual(["default"]);
    expect(apiKey).toBe("key 1");
    expect(users).toMatchObject([{ email, password, admin: true }]);
    expect([...smtp.values()]).toMatchObject([
      { host: CATCHER.host, port: CATCHER.smtpPort, tls: "none", username: null },
    ]);
  });

  test("that was killed before it had printed them says others, and makes nothing twice", async () => {
    const { stores, accounts, users, smtp } = installation();
    const somebody = { id: "user 0", email: "a@example.com", password: "theirs", admin: true };
    users.push(somebody);
    const first = await createCredentials(stores, CATCHER);
    smtp.set("id of default", OWN);
    const second = await createCredentials(stores, CATCHER);
    expect(accounts).toEqual(["default"]);
    expect(second.apiKey).not.toBe(first.apiKey);
    expect(second.password).not.toBe(first.password);
    const owner = { email: second.email, password: second.password };
    expect(users).toMatchObject([{ password: "theirs" }, owner]);
    expect(smtp.get("id of default")).toEqual(OWN);
  });
});

describe("a mail catcher that had to move", () => {
  const move = { host: CATCHER.host, from: CATCHER.smtpPort, to: 40_001 };

  test("is followed by the account that sends there", async () => {
    const { stores, smtp } = installation();
    await followMailCatcher(stores, move);
    expect(smtp.size).toBe(0);
    await createCredentials(stores, CATCHER);
    await followMailCatcher(stores, move);
    expect(smtp.get("id of default")).toMatchObject({ host: CATCHER.host, port: 40_001 });
  });

  test.each([{ host: "mail.example" }, { port: 2525 }])(
    "and not by one that sends elsewhere: %j",
    async (elsewhere) => {
      const { stores, smtp } = installation();
      await createCredentials(stores, CATCHER);
      const own = { ...OWN, host: CATCHER.host, port: CATCHER.smtpPort, ...elsewhere };
      smtp.set("id of default", own);
      await followMailCatcher(stores, move);
      expect(smtp.get("id of default")).toEqual(own);
    },
  );
});

test("the key ring is the operator's, else the one that the directory keeps", async () => {
  const files = new Map<string, string>();
  const directory = {
    read: async (name: string) => files.get(name),
    write: async (name: string, text: string) => {
      files.set(name, text);
    },
  };
  expect(await encryptionKeys({ configured: "k9:x", directory })).toBe("k9:x");
  expect(files.size).toBe(0);
  const made = await encryptionKeys({ configured: undefined, directory });
  expect(made).toMatch(/^k1:[A-Za-z0-9+/]{43}=$/);
  expect(await encryptionKeys({ configured: undefined, directory })).toBe(made);
  // A file without its content, as a loss of power leaves it.
  files.set("encryption-keys", "\n");
  expect(await encryptionKeys({ configured: undefined, directory })).toMatch(/^k1:/);
});
