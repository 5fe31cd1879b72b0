import { execFile } from "node:child_process";
import { chown } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** How to run a PostgreSQL program as a user that it accepts. */
export interface PostgresUser {
  command(program: string, args: readonly string[]): { file: string; args: string[] };
  /** Hands a path over to that user; nothing to do unless this process is root. */
  own(path: string): Promise<void>;
}

const NOBODY = 65_534;

const ORDINARY: PostgresUser = {
  command: (program, args) => ({ file: program, args: [...args] }),
  own: async () => undefined,
};

/**
 * PostgreSQL refuses to run as root. As root we run it as `nobody`, through util-linux's setpriv, with one extra
 * capability: a checkout or data directory below a 0700 parent (/root, mktemp -d) stays reachable without
 * loosening permissions.
 */
export async function postgresUser(probe: string): Promise<PostgresUser> {
  if (process.getuid?.() !== 0) return ORDINARY;
  const base = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  const reach = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
  let cause: unknown;
  // In a container the capability may be missing; an open directory works without it.
  for (const options of [[...base, ...reach], base]) {
    try {
      await run("setpriv", [...options, probe, "--version"]);
      return {
        command: (program, args) => ({ file: "setpriv", args: [...options, program, ...args] }),
        own: (path) => chown(path, NOBODY, NOBODY),
      };
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(
    "PostgreSQL refuses to run as root, and it could not be run as nobody (setpriv of util-linux is needed): start as an ordinary user, or set DATABASE_URL",
    { cause },
  );
}
