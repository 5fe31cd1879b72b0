import { smtpHostProblem, type ApiKey, type SmtpSettings, type User } from "../domain/account.ts";
import { parseAddress } from "../domain/address.ts";
import { isoUtc, isoUtcOrNull } from "../domain/instant.ts";
import { LastAdministrator, LastOwner } from "../domain/ports/accounts.ts";
import {
  accountNamed,
  asJson,
  asTable,
  CommandFailed,
  requiredValue,
  UsageError,
  type AdminStores,
  type Command,
  type Invocation,
} from "./command.ts";

const ACCOUNT = { value: "NAME", meaning: "the account's name", required: true };
const EMAIL = {
  value: "EMAIL",
  meaning: "the address that the user signs in with",
  required: true,
};
const PASSWORD_STDIN = { meaning: "read the password from standard input" };
const PASSWORD = { ...PASSWORD_STDIN, required: true };

export const CREDENTIAL_COMMANDS: readonly Command[] = [
  {
    path: "key create",
    summary: "Create an API key. Prints the raw key, which is shown only once.",
    positionals: [],
    options: {
      account: ACCOUNT,
      label: { value: "LABEL", meaning: "what the key is for" },
    },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const { key, raw } = await stores.apiKeys.create(account.id, options["label"] ?? "");
      return { text: raw, json: { ...keyView(key), key: raw } };
    },
  },
  {
    path: "key list",
    summary: "List an account's API keys: id, prefix, label, creation and last use.",
    positionals: [],
    options: { account: ACCOUNT },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const keys = await stores.apiKeys.list(account.id);
      return {
        text: asTable(
          ["ID", "PREFIX", "LABEL", "CREATED", "LAST USED"],
          keys.map((key) => [
            key.id,
            `${key.prefix}…`,
            key.label,
            isoUtc(key.createdAt),
            key.lastUsedAt === null ? "never" : isoUtc(key.lastUsedAt),
          ]),
        ),
        json: keys.map(keyView),
      };
    },
  },
  {
    path: "key delete",
    summary: "Delete an API key by its id from `key list`. It stops working at once.",
    positionals: ["ID"],
    options: { account: ACCOUNT },
    async run({ stores, positionals, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const id = requiredValue(positionals, "ID");
      if (!(await stores.apiKeys.delete(account.id, id)))
        throw new CommandFailed(`${account.name} has no key ${id}`);
      return { text: `deleted ${id}`, json: { id, deleted: true } };
    },
  },
  {
    path: "keys reencrypt",
    summary: "Encrypt all secrets again, after you put a new key first in the ring.",
    positionals: [],
    options: {},
    async run({ stores }) {
      await stores.checkKeys();
      const { reencrypted } = await stores.reencrypt();
      return { text: `${reencrypted} secrets sealed again`, json: { reencrypted } };
    },
  },
  {
    path: "signing-secret show",
    summary: "Print the secret that signs the account's webhooks.",
    positionals: [],
    options: { account: ACCOUNT },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      // The first time, one is made.
      await stores.checkKeys();
      const secrets = await stores.signingSecrets.current(account.id);
      return { text: secrets[0] ?? "", json: { account: account.name, secrets } };
    },
  },
  {
    path: "signing-secret rotate",
    summary:
      "Create a new signing secret and print it. The old one also signs for another 24 hours.",
    positionals: [],
    options: { account: ACCOUNT },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      await stores.checkKeys();
      const { secret, oldValidUntil } = await stores.signingSecrets.rotate(account.id);
      const until = isoUtcOrNull(oldValidUntil);
      return {
        text: secret,
        note: until === null ? undefined : `the old secret goes on signing until ${until}`,
        json: { account: account.name, secret, old_valid_until: until },
      };
    },
  },
  {
    path: "smtp set",
    summary: "Set the SMTP server through which the account sends mail. Prints JSON.",
    positionals: [],
    options: {
      account: ACCOUNT,
      host: { value: "HOST", meaning: "SMTP server", required: true },
      port: { value: "PORT", meaning: "its port: 587, 465, 2525 or 25", required: true },
      from: {
        value: "ADDRESS",
        meaning: "sender address of all the account's mail",
        required: true,
      },
      username: { value: "USER", meaning: "user name; needs --password-stdin" },
      "password-stdin": PASSWORD_STDIN,
      tls: {
        value: "MODE",
        meaning: "starttls, implicit or none (default: implicit on 465, else starttls)",
      },
    },
    async run(invocation) {
      const { stores, options } = invocation;
      const port = portOf(requiredValue(options, "port"));
      const username = options["username"] ?? null;
      if (username === "") throw new UsageError("--username is empty: leave it out for none");
      const password = await passwordOf(invocation);
      if ((username === null) !== (password === null))
        throw new UsageError("--username and --password-stdin go together");
      const settings = {
        host: hostOf(requiredValue(options, "host")),
        port,
        from: senderOf(requiredValue(options, "from")),
        username,
        password,
        tls: tlsOf(options["tls"], port),
      };
      const account = await accountNamed(stores, requiredValue(options, "account"));
      if (password !== null) await stores.checkKeys();
      await stores.smtpSettings.set(account.id, settings);
      const kept = asJson(smtpView(account.name, settings));
      // Only a warning: settings of an installation are made in any order, and the program's may follow.
      const warning = await stores.mailServerWarning(account, settings);
      return warning === null ? kept : { ...kept, warning };
    },
  },
  {
    path: "smtp show",
    summary: "Print the account's SMTP settings, without the password. Prints JSON.",
    positionals: [],
    options: { account: ACCOUNT },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const settings = await stores.smtpSettings.get(account.id);
      if (settings === undefined)
        throw new CommandFailed(
          `${account.name} has no SMTP settings: make them with \`smtp set\``,
        );
      return asJson(smtpView(account.name, settings));
    },
  },
  {
    path: "user create",
    summary: "Create a user who may sign in to the dashboard. Prints JSON.",
    positionals: [],
    options: {
      account: ACCOUNT,
      email: EMAIL,
      "password-stdin": PASSWORD,
      admin: { meaning: "make the user an administrator, who may create and bind accounts" },
    },
    async run(invocation) {
      const { stores, options, switches } = invocation;
      const password = await readPassword(invocation);
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const user = await stores.users.create({
        account: account.id,
        email: requiredValue(options, "email"),
        password,
        admin: switches.has("admin"),
      });
      return asJson({ id: user.id, account: account.name, ...userView(user) });
    },
  },
  {
    path: "user list",
    summary: "List the users of an account.",
    positionals: [],
    options: { account: ACCOUNT },
    async run({ stores, options }) {
      const account = await accountNamed(stores, requiredValue(options, "account"));
      const users = await stores.users.list(account.id);
      return {
        text: asTable(
          ["EMAIL", "ROLE", "CREATED"],
          users.map((user) => [
            user.email,
            user.admin ? `${user.role}, administrator` : user.role,
            isoUtc(user.createdAt),
          ]),
        ),
        json: users.map((user) => ({ ...userView(user), created_at: isoUtc(user.createdAt) })),
      };
    },
  },
  {
    path: "user delete",
    summary:
      "Delete a dashboard user; open sessions end. API keys stay: delete those that the user knows.",
    positionals: [],
    options: { email: EMAIL },
    async run({ stores, options }) {
      const email = requiredValue(options, "email");
      const user = await userNamed(stores, email);
      try {
        await stores.users.delete(user.account, user.id, { admin: true });
      } catch (cause) {
        if (!(cause instanceof LastOwner || cause instanceof LastAdministrator)) throw cause;
        const admin = cause instanceof LastAdministrator ? " --admin" : "";
        throw new CommandFailed(
          `${cause.message}: create another one first (\`user create${admin}\`)`,
          { cause },
        );
      }
      return {
        text: `deleted ${user.email}`,
        json: { id: user.id, email: user.email, deleted: true },
      };
    },
  },
  {
    path: "user set-password",
    summary: "Set a dashboard user's password, and end the user's open sessions.",
    positionals: [],
    options: {
      email: EMAIL,
      "password-stdin": PASSWORD,
    },
    async run(invocation) {
      const { stores, options } = invocation;
      const password = await readPassword(invocation);
      const user = await userNamed(stores, requiredValue(options, "email"));
      await stores.users.setPassword(user.id, password);
      return {
        text: `${user.email} has a new password; open sessions have ended`,
        json: { id: user.id, email: user.email, password_set: true, sessions_ended: true },
      };
    },
  },
];

function keyView(key: ApiKey): object {
  return {
    id: key.id,
    prefix: key.prefix,
    label: key.label,
    created_at: isoUtc(key.createdAt),
    last_used_at: isoUtcOrNull(key.lastUsedAt),
  };
}

function userView({ id, email, role, admin }: User): object {
  return { id, email, role, admin };
}

function smtpView(account: string, settings: Omit<SmtpSettings, "revision">): object {
  const { host, port, from, username, password, tls } = settings;
  return { account, host, port, from, username, tls, password_set: password !== null };
}

async function userNamed(stores: AdminStores, email: string): Promise<User> {
  const user = await stores.users.byEmail(email);
  if (!user) throw new CommandFailed(`there is no user ${email}`);
  return user;
}

/** Null without the switch. */
async function passwordOf(invocation: Invocation): Promise<string | null> {
  return invocation.switches.has("password-stdin") ? readPassword(invocation) : null;
}

/** The line end that `echo` adds is not part of the password. */
async function readPassword(invocation: Invocation): Promise<string> {
  const password = (await invocation.readStandardInput()).replace(/\r?\n$/, "");
  if (password === "") throw new UsageError("standard input held no password");
  if (/\p{Cc}/u.test(password))
    throw new UsageError(
      "the password on standard input must be one line, without control characters",
    );
  return password;
}

function hostOf(text: string): string {
  const host = text.trim().toLowerCase();
  const problem = smtpHostProblem(host);
  if (problem !== null) throw new UsageError(`--host ${problem}`);
  return host;
}

/** The address in the form that goes to the mail server. */
function senderOf(text: string): string {
  const parsed = parseAddress(text);
  if (parsed.kind === "invalid") throw new UsageError(`--from ${parsed.reason}`);
  return parsed.address;
}

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new UsageError("--port must be a number from 1 to 65535");
  return port;
}

function tlsOf(mode: string | undefined, port: number): "starttls" | "implicit" | "none" {
  switch (mode) {
    case undefined:
      return port === 465 ? "implicit" : "starttls";
    case "starttls":
    case "implicit":
    case "none":
      return mode;
    default:
      throw new UsageError("--tls must be starttls, implicit or none");
  }
}
