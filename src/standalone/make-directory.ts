import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { isSystemError } from "./system-error.ts";

/**
 * Makes `path` (absolute) and what is missing above it, readable by its owner alone (0700). What exists stays as it is.
 * Throws the system's error. Node's recursive mkdir never ends where a file system says ENOENT although the parent
 * exists, as /proc does; here the parent is made only once.
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

/** An existing file of this name is no error here: the first write into the directory fails. */
async function makeOne(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (!isSystemError(error, "EEXIST")) throw error;
  });
}
