import type {
  Accounts,
  ApiKeys,
  SigningSecrets,
  SmtpSettingsStore,
  Users,
} from "../domain/ports/accounts.ts";
import type { Account } from "../domain/account.ts";

/** What the admin commands work on: the installation's stores. */
export interface AdminStores {
  accounts: Omit<Accounts, "delete">;
  apiKeys: ApiKeys;
  smtpSettings: SmtpSettingsStore;
  signingSecrets: SigningSecrets;
  users: Users;
  /**
   * Deletes the account with the jobs that REST made for it. Resolves with a note when something was left: what it is,
   * and what to do about it.
   */
  deleteAccount(account: Account): Promise<string | undefined>;
  /**
   * Throws unless the key ring opens what is sealed. To be asked before something is sealed: what the programs cannot
   * open keeps them from their next start.
   */
  checkKeys(): Promise<void>;
  /** Seals every secret at rest again under the first key of the ring. */
  reencrypt(): Promise<{ reencrypted: number }>;
  /**
   * The uid, which tells a namespace from an earlier one of the same name. Empty without a cluster at hand, or before
   * the namespace exists: the account is then bound to the first incarnation that is seen.
   */
  namespaceUid(namespace: string): Promise<string>;
  /** Why no mail would go to this server, as far as is known here; null: no reason is known. */
  mailServerWarning(
    account: Account,
    server: { host: string; port: number },
  ): Promise<string | null>;
  /** Throws InvalidInput when the text is not a `CIDR[:port]` rule. */
  checkRule(rule: string): void;
}

export interface Option {
  /** Shown in the help: `NAME`. Absent: a switch without a value. */
  value?: string;
  meaning: string;
  required?: boolean;
}

export interface Invocation {
  stores: AdminStores;
  /** By their names in `positionals`. */
  positionals: Readonly<Record<string, string>>;
  options: Readonly<Record<string, string | undefined>>;
  switches: ReadonlySet<string>;
  readStandardInput(): Promise<string>;
}

/** `text` is for people and for `$(…)`; `json` for `--output json`. */
export interface CommandResult {
  text: string;
  /** For people too, on standard error, so that `text` stays alone on standard output. */
  note?: string;
  /** On standard error in both formats. */
  warning?: string;
  json: unknown;
}

export interface Command {
  /** After `admin`: `account create`. */
  path: string;
  summary: string;
  positionals: readonly string[];
  options: Readonly<Record<string, Option>>;
  run(invocation: Invocation): Promise<CommandResult>;
}

/** The command line cannot be understood: exit code 2. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** What was asked for cannot be done, and the message says why: exit code 1. */
export class CommandFailed extends Error {
  override name = "CommandFailed";
}

export async function accountNamed(stores: AdminStores, name: string): Promise<Account> {
  const account = await stores.accounts.byName(name);
  if (!account) throw new CommandFailed(`there is no account named ${name}`);
  return account;
}

/** A required positional or option: the parser has made sure that it is there. */
export function requiredValue(
  values: Readonly<Record<string, string | undefined>>,
  name: string,
): string {
  const value = values[name];
  if (value === undefined) throw new UsageError(`${name} is missing`);
  return value;
}

export function asJson(value: unknown): CommandResult {
  return { text: JSON.stringify(value, null, 2), json: value };
}

/** Columns padded to the widest cell; the heading alone when there are no rows. */
export function asTable(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = heading.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  return [heading, ...rows]
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
