import { createHmac } from "node:crypto";

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
  return secrets
    .map((secret) => {
      const key = Buffer.from(
        secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret,
        "base64",
      );
      return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
    })
    .join(" ");
}
