import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { isSystemError } from "./system-error.ts";

/**
 * `path` (absolute) with what is missing above it, readable by its owner alone (0700); what is there stays as it is. Throws the
 * system's error. Node's recursive mkdir never ends where a file system says ENOENT of a directory whose parent is there,
 * as /proc does: here the parent is made once.
 */
export async function makeDirectory(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (!isSystemError(error, "ENOENT") || dirname(path) === path) throw error;
    await makeDirectory(dirname(path));
    await makeOne(path);
  }
}

/** A file in its place is found by whoever writes into it. */
async function makeOne(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (!isSystemError(error, "EEXIST")) throw error;
  });
}
