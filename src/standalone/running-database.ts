import { join, resolve } from "node:path";
import { readOptional } from "./data-directory.ts";
import { ENCRYPTION_KEYS_FILE } from "./encryption-keys.ts";

/** Where the running standalone says how to reach its database (0600); gone while it does not run. */
export const CONNECTION_FILE = "database-url";

export interface RunningDatabase {
  url: string;
  /** Undefined when the keys are the operator's, in the environment. */
  encryptionKeys: string | undefined;
}

/** The database of the standalone that runs on this data directory; undefined when none does. */
export async function runningDatabase(dataDir: string): Promise<RunningDatabase | undefined> {
  const path = resolve(dataDir);
  const url = await readOptional(join(path, CONNECTION_FILE));
  if (url === undefined) return undefined;
  const keys = await readOptional(join(path, ENCRYPTION_KEYS_FILE));
  return { url: url.trim(), encryptionKeys: keys?.trim() };
}
