import type { Program, Variable } from "./variable.ts";
import { VARIABLES } from "./variables.ts";

/** A variable is undefined when it is unset and has no default for the program. */
export type Configuration = {
  readonly [K in keyof typeof VARIABLES]: (typeof VARIABLES)[K] extends Variable<infer T>
    ? T | undefined
    : never;
};

/** What the operator set cannot be used. The message has one line for each thing that is wrong. */
export class ConfigurationError extends Error {
  override name = "ConfigurationError";
}

/** Reads every variable of the table; throws one ConfigurationError that names all that is wrong. */
export function readConfiguration(
  program: Program,
  env: Readonly<Record<string, string | undefined>>,
): Configuration {
  const values: Record<string, unknown> = {};
  const wrong: string[] = [];
  for (const [field, variable] of Object.entries<Variable<unknown>>(VARIABLES)) {
    const given = env[variable.name]?.trim();
    const text = given === undefined || given === "" ? defaultOf(variable, program) : given;
    if (text === undefined) {
      if (variable.requiredBy?.includes(program))
        wrong.push(`${variable.name} is not set: ${variable.meaning}`);
      continue;
    }
    try {
      values[field] = variable.parse(text);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const shown = variable.secret ? "" : ` (it is ${JSON.stringify(text)})`;
      wrong.push(`${variable.name} ${reason}${shown}`);
    }
  }
  const { port, metricsPort } = values as Configuration;
  const listensTwice = program === "standalone" || program === "gateway";
  if (listensTwice && port !== undefined && port !== 0 && port === metricsPort)
    wrong.push(`CARILLON_METRICS_PORT must be another port than PORT (both are ${port})`);
  if (wrong.length > 0) throw new ConfigurationError(wrong.join("\n"));
  return values as Configuration;
}

/** Variables that look like ours but are unknown: otherwise a misspelt name would silently have no effect. */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const known = new Set<string>(Object.values(VARIABLES).map(({ name }) => name));
  return Object.entries(env).flatMap(([name, value = ""]) => {
    if (value === "") return [];
    const fine = !name.startsWith("CARILLON_") || known.has(name) || ELSEWHERE.test(name);
    // Set by Kubernetes and Docker for a service that is named carillon.
    const link = SERVICE_LINK.test(name) || /^(?:tcp|udp|sctp):\/\//.test(value);
    return fine || link ? [] : [name];
  });
}

/** Names that our documents and tests use for callers, receivers and tests. */
const ELSEWHERE =
  /^CARILLON_(?:API_KEY|URL|SIGNING_SECRET|TEST_\w+|FUZZ_SEED|COMPRESSED_TIME_\w+)$/;
const SERVICE_LINK = /_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$/;

export function defaultOf(variable: Variable<unknown>, program: Program): string | undefined {
  return typeof variable.default === "string" ? variable.default : variable.default?.[program];
}

/** The value of a variable that the program needs: a default or `requiredBy` makes sure of it. */
export function required<K extends keyof Configuration>(
  configuration: Configuration,
  field: K,
): NonNullable<Configuration[K]> {
  const value = configuration[field];
  if (value === undefined || value === null)
    throw new ConfigurationError(`${VARIABLES[field].name} is not set`);
  return value;
}
