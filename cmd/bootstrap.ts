import type { Configuration } from "../src/configuration/configuration.ts";
import { StartProblem } from "../src/configuration/start-problem.ts";
import { InvalidInput, type Finding } from "../src/domain/findings.ts";
import { namespaceUid } from "../src/kubernetes/namespace-uid.ts";
import { createAccounts, nameFindings } from "../src/postgres/accounts.ts";
import { oncePerDatabase } from "../src/postgres/once-per-database.ts";
import { createPool } from "../src/postgres/pool.ts";
import { createUsers, userFindings } from "../src/postgres/users.ts";
import { withCluster } from "./with-cluster.ts";

/** The variables behind the fields that the stores complain about. */
const VARIABLE_OF: Partial<Record<string, string>> = {
  name: "CARILLON_BOOTSTRAP_ACCOUNT",
  namespace: "CARILLON_BOOTSTRAP_NAMESPACE",
  email: "CARILLON_BOOTSTRAP_EMAIL",
  password: "CARILLON_BOOTSTRAP_PASSWORD",
};

/**
 * The account that CARILLON_BOOTSTRAP_* ask for; undefined: none. Throws StartProblem for values that cannot be
 * accepted, without looking at the database.
 */
export function firstAccount(configuration: Configuration): FirstAccount | undefined {
  const { bootstrapAccount: name, bootstrapNamespace: namespace } = configuration;
  const user = firstUser(configuration);
  if (name === undefined) {
    if (namespace !== undefined || user !== undefined)
      throw new StartProblem(
        "CARILLON_BOOTSTRAP_ACCOUNT is not set: set it, or no CARILLON_BOOTSTRAP_*",
      );
    return undefined;
  }
  const findings = [...nameFindings(name), ...(user === undefined ? [] : userFindings(user))];
  if (findings.length > 0) throw new StartProblem(describe(findings));
  return { name, namespace, user };
}

export interface FirstAccount {
  name: string;
  namespace: string | undefined;
  user: { email: string; password: string } | undefined;
}

/**
 * Creates the account of CARILLON_BOOTSTRAP_ACCOUNT, bound to its namespace, and its dashboard user: once
 * per database, however many pods start at the same time. Later changes and deletions by people are not undone.
 */
export async function bootstrap(options: {
  first: FirstAccount | undefined;
  databaseUrl: string;
  say: (line: string) => void;
}): Promise<void> {
  const { first, databaseUrl: url, say } = options;
  if (first === undefined) return;
  const { name, namespace, user } = first;
  const pool = createPool({ url, applicationName: "carillon bootstrap", max: 1 });
  try {
    const accounts = createAccounts({ pool });
    const users = createUsers({ pool });
    await oncePerDatabase({
      url,
      key: "bootstrap",
      async work() {
        // An earlier try that died half-way, or an operator, may have made a part of it.
        const found = await accounts.byName(name);
        const account = found ?? (await accounts.create({ name }));
        if (found === undefined) say(`Created the account ${name}`);
        if (namespace !== undefined && account.namespace === null) {
          await accounts.bind(account.id, namespace, await uidOf(namespace));
          say(`Bound the account ${name} to the namespace ${namespace}`);
        }
        const known = await users.list(account.id);
        if (user !== undefined && known.length === 0) {
          await users.create({ account: account.id, ...user, admin: true });
          say(`Created the user ${user.email} of the account ${name}`);
        }
      },
    });
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    throw new StartProblem(describe(error.findings), { cause: error });
  } finally {
    await pool.end();
  }
}

function describe(findings: readonly Finding[]): string {
  return findings
    .map(({ field, message }) => `${VARIABLE_OF[field] ?? field}: ${message}`)
    .join("; ");
}

function firstUser(configuration: Configuration): FirstAccount["user"] {
  const { bootstrapEmail: email, bootstrapPassword: password } = configuration;
  if (email === undefined && password === undefined) return undefined;
  if (email === undefined || password === undefined)
    throw new StartProblem(
      "CARILLON_BOOTSTRAP_EMAIL and CARILLON_BOOTSTRAP_PASSWORD belong together: set both or none",
    );
  return { email, password };
}

async function uidOf(namespace: string): Promise<string> {
  const uid = await withCluster(({ client }) => namespaceUid(client, namespace));
  if (uid !== undefined) return uid;
  throw new StartProblem(
    `the namespace ${namespace} of the first account does not exist: create it, or set CARILLON_BOOTSTRAP_NAMESPACE to another`,
  );
}
