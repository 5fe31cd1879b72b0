import { randomBytes } from "node:crypto";
import type { DataDirectory } from "./data-directory.ts";

/** Read by the admin commands too. */
export const ENCRYPTION_KEYS_FILE = "encryption-keys";

/** The key ring's text: the operator's, or the data directory's own, made on the first start. */
export async function encryptionKeys(options: {
  configured: string | undefined;
  directory: Pick<DataDirectory, "read" | "write">;
}): Promise<string> {
  if (options.configured !== undefined) return options.configured;
  const kept = (await options.directory.read(ENCRYPTION_KEYS_FILE))?.trim();
  if (kept) return kept;
  const fresh = `k1:${randomBytes(32).toString("base64")}`;
  await options.directory.write(ENCRYPTION_KEYS_FILE, `${fresh}\n`);
  return fresh;
}
