import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";

const PREFIX = "whsec_";

/**
 * Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks, "Signature scheme"): HMAC-
 * SHA256 over `id.timestamp.body` with the decoded secret. One `v1,…` for each secret, separated by
 * spaces, so that receivers with the old or the new secret both verify during a rotation.
 */
export function sign(message: {
  id: string;
  /** Seconds since the epoch. */
  timestamp: number;
  body: string;
  /** `whsec_` + base64. */
  secrets: readonly string[];
}): string {
  const { id, timestamp, body, secrets } = message;
  const signed = `${id}.${timestamp}.${body}`;
  return secrets
    .map((secret) => `v1,${createHmac("sha256", keyOf(secret)).update(signed).digest("base64")}`)
    .join(" ");
}

/** Making the key of a secret costs five times as much as signing with it. */
const keys = new LRUCache<string, KeyObject>({ max: 1_000 });

function keyOf(secret: string): KeyObject {
  const known = keys.get(secret);
  if (known !== undefined) return known;
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const key = createSecretKey(encoded, "base64");
  keys.set(secret, key);
  return key;
}
