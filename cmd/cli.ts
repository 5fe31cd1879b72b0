#!/usr/bin/env node
/** `carillon admin …`: works on DATABASE_URL, or on the running standalone of CARILLON_DATA_DIR. */
import { configuredCluster, createAccountsInCluster } from "../src/admin/accounts-in-cluster.ts";
import { CommandFailed, UsageError, type AdminStores } from "../src/admin/command.ts";
import { parseCommandLine, type ParsedCommandLine } from "../src/admin/command-line.ts";
import {
  readConfiguration,
  required,
  type Configuration,
} from "../src/configuration/configuration.ts";
import { StartProblem } from "../src/configuration/start-problem.ts";
import { createDestinationPolicy } from "../src/network/destination-policy.ts";
import { parseDestinationRules } from "../src/network/destination-rules.ts";
import { mailServerWarning } from "../src/network/mail-server-warning.ts";
import type { Accounts } from "../src/domain/ports/accounts.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-unavailable.ts";
import { createAccountBinding } from "../src/kubernetes/account-binding.ts";
import { createAccountDeletion } from "../src/kubernetes/account-deletion.ts";
import { namespaceUid } from "../src/kubernetes/namespace-uid.ts";
import { createAccounts } from "../src/postgres/accounts.ts";
import { createApiKeys } from "../src/postgres/api-keys.ts";
import { cancelAccountRuns } from "../src/postgres/cancel-account-runs.ts";
import { parseKeyRing, type KeyRing } from "../src/postgres/key-ring.ts";
import { checkSchema } from "../src/postgres/migrate.ts";
import { createPool, type Pool } from "../src/postgres/pool.ts";
import { assertKeysKnown, reencryptAll } from "../src/postgres/sealed-columns.ts";
import { createSigningSecrets } from "../src/postgres/signing-secrets.ts";
import { createSmtpSettingsStore } from "../src/postgres/smtp-settings.ts";
import { createUsers } from "../src/postgres/users.ts";
import { runningDatabase } from "../src/standalone/running-database.ts";
import { createAccountRules, installationRules } from "./account-rules.ts";
import { readEnvironment } from "./environment.ts";
import { reportFailure } from "./problem.ts";
import { ignoreClosedReaders, say, write } from "./say.ts";
import { readText } from "./standard-input.ts";
import { monotonic } from "./system.ts";
import { VERSION } from "./version.ts";
import { withCluster } from "./with-cluster.ts";

ignoreClosedReaders();
let databaseUrl: string | undefined;
let lookAt: string | undefined;
try {
  const parsed = parseCommandLine(process.argv.slice(2));
  switch (parsed.kind) {
    case "help":
      say(parsed.text);
      break;
    case "version":
      say(VERSION);
      break;
    case "command":
      await run(parsed);
      break;
  }
} catch (error) {
  if (error instanceof UsageError || error instanceof CommandFailed) {
    process.stderr.write(`carillon: ${error.message}\n`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  } else reportFailure(error, databaseUrl, lookAt);
}

async function run(parsed: ParsedCommandLine & { kind: "command" }): Promise<void> {
  const { command, output } = parsed;
  const configuration = readEnvironment("admin");
  const database = await locateDatabase(configuration);
  databaseUrl = database.url;
  if (database.dataDir !== undefined) lookAt = `the data directory ${database.dataDir}`;
  const pool = createPool({ url: database.url, applicationName: "carillon admin", max: 2 });
  try {
    await checkSchema({ pool, appVersion: VERSION }).catch((cause: unknown) => {
      if (database.dataDir === undefined || !(cause instanceof DependencyUnavailable)) throw cause;
      throw new StartProblem(awayOf(database.dataDir, cause), { cause });
    });
    const result = await command.run({
      ...parsed.arguments,
      stores: createStores(pool, database, configuration),
      readStandardInput: () => readText(process.stdin),
    });
    // When a new key could not be printed, the command must not look as if it had succeeded.
    await write(output === "json" ? JSON.stringify(result.json) : result.text).catch(
      (cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new CommandFailed(`it is done, but could not be printed: ${reason}`, { cause });
      },
    );
    if (result.note !== undefined && output === "text")
      process.stderr.write(`carillon: ${result.note}\n`);
    if (result.warning !== undefined) process.stderr.write(`carillon: ${result.warning}\n`);
  } finally {
    await pool.end();
  }
}

/** If nobody listens on the database's port, the standalone does not run either: it would end without its database. */
function awayOf(dataDir: string, { cause }: DependencyUnavailable): string {
  if ((cause as NodeJS.ErrnoException | undefined)?.code === "ECONNREFUSED")
    return `the Carillon on the data directory ${dataDir} does not run any longer: start it again (npm start)`;
  const reason = cause instanceof Error ? cause.message : "no answer";
  return `the PostgreSQL of the Carillon on the data directory ${dataDir} cannot be used: ${reason}`;
}

interface Database {
  url: string;
  encryptionKeys: string | undefined;
  /** Set if the URL comes from the data directory of a standalone, which may have been killed since. */
  dataDir?: string;
}

async function locateDatabase(configuration: Configuration): Promise<Database> {
  const { databaseUrl: url, encryptionKeys } = configuration;
  if (url !== undefined && encryptionKeys !== undefined) return { url, encryptionKeys };
  const dataDir = required(configuration, "dataDir");
  const running = await runningDatabase(dataDir);
  // A standalone on the operator's database makes the keys itself when the operator gives none.
  if (url !== undefined)
    return { url, encryptionKeys: running?.url === url ? running.encryptionKeys : undefined };
  if (running)
    return { ...running, dataDir, encryptionKeys: encryptionKeys ?? running.encryptionKeys };
  throw new StartProblem(
    `no Carillon is running on the data directory ${dataDir}: start it (npm start), or set DATABASE_URL or CARILLON_DATA_DIR`,
  );
}

function createStores(
  pool: Pool,
  { encryptionKeys, dataDir }: Database,
  { jobStore, databaseUrl: url, watchNamespaces = [] }: Configuration,
): AdminStores {
  const keyRing = lazyKeyRing(encryptionKeys);
  // An empty variable counts as unset.
  const named = Boolean(process.env["KUBECONFIG"] || process.env["KUBERNETES_SERVICE_HOST"]);
  const inCluster = createAccountsInCluster({
    configured: configuredCluster({ jobStore, databaseUrl: url, named }),
    cluster: {
      namespaceUid: (namespace) => withCluster(({ client }) => namespaceUid(client, namespace)),
      leave: (...left) => withCluster((cluster) => createAccountBinding(cluster).leave(...left)),
      deleteAccount: (...deleted) =>
        withCluster(({ client }) => createAccountDeletion({ client, accounts })(...deleted)),
    },
    watchNamespaces,
    say: (line) => process.stderr.write(`carillon: ${line}\n`),
  });
  const accounts = createAccounts({
    pool,
    onDelete: cancelAccountRuns,
    onLeave: (...left) => inCluster.leave(...left),
  });
  return {
    accounts,
    deleteAccount: (account) => inCluster.delete(account, () => accounts.delete(account.id)),
    apiKeys: createApiKeys({ pool }),
    smtpSettings: createSmtpSettingsStore({ pool, keyRing }),
    signingSecrets: createSigningSecrets({ pool, keyRing }),
    users: createUsers({ pool }),
    namespaceUid: (namespace) => inCluster.namespaceUid(namespace),
    checkKeys: () => assertKeysKnown({ pool, keyRing }),
    reencrypt: () => reencryptAll({ pool, keyRing }),
    mailServerWarning: (account, server) =>
      warningOf({ account: account.id, server, accounts, standalone: dataDir !== undefined }),
    checkRule: (rule) => {
      parseDestinationRules(rule);
    },
  };
}

/**
 * Judges by the rules of this environment: in a pod, or beside a standalone, they are most likely those of the
 * program.
 */
async function warningOf(options: {
  account: string;
  server: { host: string; port: number };
  accounts: Pick<Accounts, "allowedDestinations">;
  standalone: boolean;
}): Promise<string | null> {
  const { account, server, accounts, standalone } = options;
  const policy = createDestinationPolicy({
    rules: installationRules(readConfiguration(standalone ? "standalone" : "admin", process.env)),
    accountRules: createAccountRules({ accounts, monotonic }),
  });
  const warning = await mailServerWarning({ policy, account, server });
  return warning === null
    ? null
    : `the settings are kept, but no mail will be sent, unless the program's own CARILLON_ALLOW_DESTINATIONS, which may not be the one here, allows it: ${warning}`;
}

/** Only commands that touch secrets need the keys; the others work without. */
function lazyKeyRing(encryptionKeys: string | undefined): KeyRing {
  const ring = (): KeyRing => {
    if (encryptionKeys === undefined)
      throw new StartProblem(
        "CARILLON_ENCRYPTION_KEYS is not set: this command reads or writes secrets",
      );
    return parseKeyRing(encryptionKeys);
  };
  return {
    get keyIds() {
      return ring().keyIds;
    },
    encrypt: (plaintext, aad) => ring().encrypt(plaintext, aad),
    decrypt: (sealed, aad) => ring().decrypt(sealed, aad),
    derive: (purpose) => ring().derive(purpose),
  };
}
