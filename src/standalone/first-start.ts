import { randomBytes } from "node:crypto";
import type { Accounts, ApiKeys, SmtpSettingsStore, Users } from "../domain/ports/accounts.ts";

/** Names and addresses of a first start, which the owner may change. */
const ACCOUNT = "default";
const EMAIL = "owner@carillon.localhost";
const FROM = "carillon@carillon.localhost";

export interface Credentials {
  apiKey: string;
  email: string;
  password: string;
}

interface Stores {
  accounts: Pick<Accounts, "byName" | "create">;
  apiKeys: Pick<ApiKeys, "create">;
  smtpSettings: Pick<SmtpSettingsStore, "get" | "set">;
  users: Pick<Users, "create" | "list" | "setPassword">;
}

/**
 * Makes the account, API key, user and SMTP settings that a first start prints. Safe to run again after a start
 * that was killed in the middle: what exists is used, and secrets that were not shown are made anew.
 */
export async function createCredentials(
  stores: Stores,
  mailCatcher: { host: string; smtpPort: number },
): Promise<Credentials> {
  const account =
    (await stores.accounts.byName(ACCOUNT)) ?? (await stores.accounts.create({ name: ACCOUNT }));
  if ((await stores.smtpSettings.get(account.id)) === undefined)
    await stores.smtpSettings.set(account.id, catcherSettings(mailCatcher));
  const password = randomBytes(12).toString("base64url");
  const user = (await stores.users.list(account.id)).find(({ email }) => email === EMAIL);
  if (user) await stores.users.setPassword(user.id, password);
  else await stores.users.create({ account: account.id, email: EMAIL, password, admin: true });
  const { raw } = await stores.apiKeys.create(account.id, "first start");
  return { apiKey: raw, email: EMAIL, password };
}

/**
 * To be called when the mail catcher had to move to another port: changes the default account's settings if they
 * still lead there. An SMTP server that the owner has set is left alone.
 */
export async function followMailCatcher(
  stores: Pick<Stores, "accounts" | "smtpSettings">,
  move: { host: string; from: number; to: number },
): Promise<void> {
  const account = await stores.accounts.byName(ACCOUNT);
  if (!account) return;
  const settings = await stores.smtpSettings.get(account.id);
  if (settings?.host !== move.host || settings.port !== move.from) return;
  await stores.smtpSettings.set(account.id, { ...settings, port: move.to });
}

function catcherSettings(catcher: { host: string; smtpPort: number }) {
  return {
    host: catcher.host,
    port: catcher.smtpPort,
    username: null,
    password: null,
    from: FROM,
    tls: "none" as const,
  };
}
