import { LRUCache } from "lru-cache";
import type { SigningSecrets } from "../domain/ports/accounts.ts";

/** A rotated secret signs within this time, in milliseconds. */
const FRESH_MS = 1_000;

/** The accounts' signing secrets, asked for at most once a second each however large the herd. */
export function createSigningKeys(secrets: Pick<SigningSecrets, "current">) {
  const cache = new LRUCache<string, Promise<readonly string[]>>({ max: 10_000, ttl: FRESH_MS });
  return (account: string): Promise<readonly string[]> => {
    const known = cache.get(account);
    if (known !== undefined) return known;
    const asked = secrets.current(account);
    cache.set(account, asked);
    asked.catch(() => {
      if (cache.peek(account) === asked) cache.delete(account);
    });
    return asked;
  };
}
