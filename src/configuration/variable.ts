import { readFileSync } from "node:fs";
import { isNamespaceName, isResourceName } from "../domain/kubernetes-name.ts";
import { isLoopbackHost } from "../domain/loopback-host.ts";

/** The programs that read the environment. */
export type Program = "standalone" | "gateway" | "controller" | "migrate" | "admin";

/** One environment variable: its name, its meaning for people, and how its text becomes a value. */
export interface Variable<T> {
  name: string;
  /** For docs/configuration.md: one or two sentences, with units. */
  meaning: string;
  /** The text that is used when the variable is unset or empty, for all programs or for some. */
  default?: string | Partial<Record<Program, string>>;
  /** For docs/configuration.md: what happens without it, where there is no default text. */
  without?: string;
  /** Programs that cannot run without it. */
  requiredBy?: readonly Program[];
  /** Never shown in an error message. */
  secret?: boolean;
  /** Throws an Error that says what is allowed, without the variable's name. */
  parse(text: string): T;
}

export function text(variable: Omit<Variable<string>, "parse">): Variable<string> {
  return { ...variable, parse: (given) => given };
}

export function integer(
  variable: Omit<Variable<number>, "parse"> & { least: number; most: number },
): Variable<number> {
  const { least, most } = variable;
  return {
    ...variable,
    parse(given) {
      const value = /^\d{1,10}$/.test(given) ? Number(given) : Number.NaN;
      if (!(value >= least && value <= most))
        throw new Error(`must be a whole number from ${least} to ${most}`);
      return value;
    },
  };
}

export function oneOf<const T extends string>(
  variable: Omit<Variable<T>, "parse"> & { values: readonly T[] },
): Variable<T> {
  const { values } = variable;
  return {
    ...variable,
    parse(given) {
      const value = values.find((candidate) => candidate === given);
      if (value === undefined) throw new Error(`must be one of ${values.join(", ")}`);
      return value;
    },
  };
}

export function yesOrNo(variable: Omit<Variable<boolean>, "parse">): Variable<boolean> {
  return {
    ...variable,
    parse(given) {
      if (given !== "true" && given !== "false") throw new Error("must be true or false");
      return given === "true";
    },
  };
}

/** The modes that pg knows. It takes any other, misspelt or of libpq alone (`allow`), for `verify-full`. */
const SSL_MODES = ["disable", "no-verify", "prefer", "require", "verify-ca", "verify-full"];

export function postgresUrl(
  variable: Omit<Variable<string>, "parse" | "secret">,
): Variable<string> {
  return {
    ...variable,
    secret: true,
    parse(given) {
      const url = URL.canParse(given) ? new URL(given) : undefined;
      if (url?.protocol !== "postgres:" && url?.protocol !== "postgresql:")
        // The example has no password: what prints this would take a placeholder for one, and redact it.
        throw new Error(
          "must look like postgres://user@host:5432/database (user:password@ with one, percent-encoded)",
        );
      if ([url.pathname, url.hash, ...url.searchParams.keys()].some((part) => part.includes("@")))
        // Such a password's text after its first @ would be taken for the host, looked up, and logged.
        throw new Error(
          "has an @ behind its host: a password is percent-encoded, all but letters, digits and -._~ (@ as %40, / as %2F)",
        );
      if (!isDecodable(given))
        throw new Error(
          "has a % that begins no character: a password is percent-encoded, all but letters, digits and -._~ (% as %25)",
        );
      const mode = url.searchParams.get("sslmode");
      if (mode !== null && !SSL_MODES.includes(mode))
        throw new Error(`must have an sslmode of ${SSL_MODES.join(", ")}, not ${mode}`);
      for (const name of SSL_FILES) assertPem(name, url.searchParams.get(name));
      return given;
    },
  };
}

/**
 * Whether pg can decode the URL. It takes a % as it is where no two hexadecimal digits follow, except at the end, and
 * throws at bytes that are not UTF-8.
 */
function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url.replaceAll(/%(?=[^0-9a-f]|[0-9a-f][^0-9a-f])/gi, "%25"));
    return true;
  } catch {
    return false;
  }
}

/**
 * pg reads these files at each connection, where a missing one looks like a server that is not there yet, and an
 * authority in another form like a server of another one: Node takes a file without any for an empty list.
 */
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"];

function assertPem(name: string, path: string | null): void {
  if (path === null || path === "") return;
  if (!textOf(name, path).includes("-----BEGIN "))
    throw new Error(`has an ${name} that is not in PEM, the text with -----BEGIN: ${path}`);
}

function textOf(name: string, path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    throw new Error(`has an ${name} that cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** https, or http on this machine itself: for addresses that passwords and sessions are sent to. */
export function secureUrl(
  variable: Omit<Variable<URL>, "parse"> & { path: "any" | "none" },
): Variable<URL> {
  return {
    ...variable,
    parse(given) {
      const url = URL.parse(given);
      if (url?.protocol !== "https:" && !(url?.protocol === "http:" && isLoopbackHost(url.host)))
        throw new Error("must be an https:// URL (http:// only on localhost)");
      if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
        throw new Error("must have no user name, password, query or fragment");
      if (variable.path === "none" && url.pathname !== "/")
        throw new Error("must have no path: https://HOST[:PORT]");
      return url;
    },
  };
}

export function list(variable: Omit<Variable<string[]>, "parse">): Variable<string[]> {
  return {
    ...variable,
    parse: (given) =>
      given
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== ""),
  };
}

function checked(
  variable: Omit<Variable<string>, "parse">,
  isOne: (given: string) => boolean,
  rule: string,
): Variable<string> {
  return {
    ...variable,
    parse(given) {
      if (!isOne(given)) throw new Error(rule);
      return given;
    },
  };
}

export function namespace(variable: Omit<Variable<string>, "parse">): Variable<string> {
  return checked(
    variable,
    isNamespaceName,
    "must be a namespace's name: at most 63 lower case letters, digits and hyphens, with a letter or digit at both ends",
  );
}

export function namespaces(variable: Omit<Variable<string[]>, "parse">): Variable<string[]> {
  return {
    ...variable,
    parse(given) {
      const names = list(variable).parse(given);
      const wrong = names.find((name) => !isNamespaceName(name));
      if (wrong !== undefined)
        throw new Error(
          `must be namespaces' names with commas in between, which ${JSON.stringify(wrong)} is not: at most 63 lower case letters, digits and hyphens, with a letter or digit at both ends`,
        );
      return names;
    },
  };
}

export function domain(variable: Omit<Variable<string>, "parse">): Variable<string> {
  return checked(
    variable,
    isResourceName,
    "must be a domain such as cluster.local: lower case letters, digits and hyphens, with a dot between its parts and none at the ends",
  );
}

export function objectName(variable: Omit<Variable<string>, "parse">): Variable<string> {
  return checked(
    variable,
    isResourceName,
    "must be a name that a Kubernetes object can have: at most 253 lower case letters, digits, hyphens and dots, with a letter or digit at both ends of each part",
  );
}
