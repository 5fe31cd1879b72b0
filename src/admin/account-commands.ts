import type { Account } from "../domain/account.ts";
import { isoUtc } from "../domain/instant.ts";
import {
  accountNamed,
  asJson,
  CommandFailed,
  requiredValue,
  type AdminStores,
  type Command,
} from "./command.ts";

const NAMESPACE = {
  value: "NAMESPACE",
  meaning: "the Kubernetes namespace whose ScheduledJobs belong to the account",
};

export const ACCOUNT_COMMANDS: readonly Command[] = [
  {
    path: "account create",
    summary: "Create an account, and bind it to a namespace. Prints JSON.",
    positionals: ["NAME"],
    options: {
      namespace: NAMESPACE,
      "if-missing": { meaning: "succeed when it exists already, bound to that namespace" },
    },
    async run({ stores, positionals, options, switches }) {
      const { namespace } = options;
      const name = requiredValue(positionals, "NAME");
      const existing = switches.has("if-missing") ? await stores.accounts.byName(name) : undefined;
      if (existing !== undefined) return asJson(accountView(boundTo(existing, namespace)));
      const namespaceUid = namespace === undefined ? "" : await stores.namespaceUid(namespace);
      const account = await stores.accounts.create({
        name,
        namespace,
        namespaceUid: namespaceUid || undefined,
      });
      return asJson(accountView(account));
    },
  },
  {
    path: "account list",
    summary: "List the accounts. Prints JSON.",
    positionals: [],
    options: {},
    async run({ stores }) {
      return asJson((await stores.accounts.list()).map(accountView));
    },
  },
  {
    path: "account bind",
    summary: "Bind an account to a namespace. Prints JSON.",
    positionals: ["NAME"],
    options: { namespace: { ...NAMESPACE, required: true } },
    async run({ stores, positionals, options }) {
      const account = await accountNamed(stores, requiredValue(positionals, "NAME"));
      const namespace = requiredValue(options, "namespace");
      const uid = await stores.namespaceUid(namespace);
      const bound = await stores.accounts.bind(account.id, namespace, uid);
      return asJson(accountView(bound));
    },
  },
  {
    path: "account delete",
    summary:
      "Delete an account: its keys stop working at once, its jobs created through REST are deleted, its data is purged after 30 days.",
    positionals: ["NAME"],
    options: {},
    async run({ stores, positionals }) {
      const account = await accountNamed(stores, requiredValue(positionals, "NAME"));
      const note = await stores.deleteAccount(account);
      const view = { ...accountView(account), deleted: true };
      return note === undefined ? asJson(view) : { ...asJson({ ...view, note }), note };
    },
  },
  {
    path: "account allow",
    summary:
      "Let an account's webhooks and SMTP reach an address range that is not globally routable. Prints JSON.",
    positionals: ["NAME", "CIDR[:PORT]"],
    options: {},
    async run({ stores, positionals }) {
      const account = await accountNamed(stores, requiredValue(positionals, "NAME"));
      const rule = requiredValue(positionals, "CIDR[:PORT]");
      stores.checkRule(rule);
      await stores.accounts.allow(account.id, rule);
      return asJson(await rulesView(stores, account));
    },
  },
  {
    path: "account disallow",
    summary: "Remove a rule that `account allow` added. Prints JSON.",
    positionals: ["NAME", "CIDR[:PORT]"],
    options: {},
    async run({ stores, positionals }) {
      const account = await accountNamed(stores, requiredValue(positionals, "NAME"));
      const rule = requiredValue(positionals, "CIDR[:PORT]");
      if (!(await stores.accounts.disallow(account.id, rule)))
        throw new CommandFailed(`${account.name} has no rule ${rule}`);
      return asJson(await rulesView(stores, account));
    },
  },
  {
    path: "account allowed",
    summary: "List the rules that `account allow` added. Prints JSON.",
    positionals: ["NAME"],
    options: {},
    async run({ stores, positionals }) {
      const account = await accountNamed(stores, requiredValue(positionals, "NAME"));
      return asJson(await rulesView(stores, account));
    },
  },
];

/** The account, where its namespace is the one that was asked for. */
function boundTo(account: Account, namespace: string | undefined): Account {
  if (namespace === undefined || account.namespace === namespace) return account;
  throw new CommandFailed(
    account.namespace === null
      ? `${account.name} exists, and is bound to no namespace: bind it (\`account bind\`)`
      : `${account.name} exists, and is bound to ${account.namespace}: move it with \`account bind\``,
  );
}

function accountView(account: Account): object {
  return {
    id: account.id,
    name: account.name,
    namespace: account.namespace,
    created_at: isoUtc(account.createdAt),
  };
}

async function rulesView({ accounts }: AdminStores, { id, name }: Account): Promise<object> {
  return { account: name, allowed: await accounts.allowedDestinations(id) };
}
