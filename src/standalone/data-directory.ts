import { createHash, randomBytes } from "node:crypto";
import { readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { StartProblem } from "../configuration/start-problem.ts";
import { holdFileLock, whereabouts } from "./file-lock.ts";
import { makeDirectory } from "./make-directory.ts";
import { holdProcessLock } from "./process-lock.ts";
import { isSystemError, naming } from "./system-error.ts";

export interface DataDirectory {
  /** Absolute, without symbolic links. */
  path: string;
  read(name: string): Promise<string | undefined>;
  /** Replaces the file as a whole, readable by its owner alone (0600). */
  write(name: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Lets go of the directory, so that another standalone may take it. */
  release(): Promise<void>;
}

/**
 * Makes the directory when it is missing and takes it for this process alone. Throws StartProblem when
 * it cannot be written or another standalone has it.
 */
export async function openDataDirectory(given: string): Promise<DataDirectory> {
  const asked = resolve(given);
  let path: string;
  let lock: Lock;
  try {
    await makeDirectory(asked);
    path = await realpath(asked);
    lock = await lockDirectory(path);
    // Only by who has it: two that start at once would remove each other's file.
    if (lock.kind === "held") await assertWritable(path);
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new StartProblem(
      `the data directory ${asked} cannot be written (${code}): make it writable or set CARILLON_DATA_DIR`,
      { cause },
    );
  }
  if (lock.kind === "taken")
    throw new StartProblem(
      `another Carillon${lock.who} is running on the data directory ${path}: stop it, or set CARILLON_DATA_DIR, PORT and CARILLON_METRICS_PORT to run a second one`,
    );
  return {
    path,
    read: (name) => readOptional(join(path, name)),
    write: (name, text) => writeAtomically(join(path, name), text),
    remove: (name) => rm(join(path, name), { force: true }),
    release: async () => {
      await lock.release();
    },
  };
}

type Lock =
  | { kind: "held"; release(): void | Promise<void> }
  /** For people: " (process 7)", or nothing when it is not known. */
  | { kind: "taken"; who: string };

/**
 * Locks the directory by a file in it where possible: that counts in every container that sees the directory.
 * Without the flock program a process lock is used, which counts in one network namespace only. No data is in
 * danger then: the bundled PostgreSQL insists on a file lock, and another database has its own lock
 * (database-lock.ts).
 */
async function lockDirectory(path: string): Promise<Lock> {
  const file = await holdFileLock(join(path, "carillon.lock"));
  if (file.kind === "held") return file;
  if (file.kind === "taken") {
    const { by } = file;
    if (!by) return { kind: "taken", who: "" };
    const elsewhere =
      by.place === whereabouts() ? "" : ` of another container or machine, ${by.host}`;
    return { kind: "taken", who: ` (process ${by.pid}${elsewhere})` };
  }
  const name = `carillon-${createHash("sha256").update(path).digest("hex").slice(0, 32)}`;
  const lock = await holdProcessLock(name);
  if (lock.kind === "held") return lock;
  return { kind: "taken", who: lock.pid === undefined ? "" : ` (process ${lock.pid})` };
}

async function assertWritable(path: string): Promise<void> {
  const trial = join(path, ".writable");
  await writeAtomically(trial, "");
  await rm(trial);
}

export async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** A kill in the middle leaves the old file or the new one, never a part of one. Readable by its owner alone (0600). */
export async function writeAtomically(path: string, text: string): Promise<void> {
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(fresh, text, { flag: "wx", mode: 0o600, flush: true });
    await rename(fresh, path);
  } catch (error) {
    // A program that is started again and again must not leave a file each time.
    await rm(fresh, { force: true });
    throw naming(path, error);
  }
}
