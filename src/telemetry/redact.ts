/** What replaces a value that must not be written. */
export const REDACTED = "[redacted]";

/**
 * Field names whose values are never written, in any spelling (`X-API-Key`, `apiKey`, `api_key`) and
 * at any depth: credentials, and whatever people put into messages.
 */
const SECRET_FIELDS = new Set([
  "apikey",
  "attachments",
  "authorization",
  "body",
  "cookie",
  "cookies",
  "credentials",
  "databaseurl",
  "emailbody",
  "encryptionkeys",
  "headersfrom",
  "html",
  "otp",
  "passcode",
  "password",
  "passwordhash",
  "payload",
  "proxyauthorization",
  "rawkey",
  "secret",
  "secrets",
  "setcookie",
  "signingsecret",
  "text",
  "token",
  "webhookpayload",
  "webhooksignature",
  "xapikey",
]);

/** Fields whose values are redacted only when they look like a passcode: an error's `code` has to stay readable. */
const PASSCODE_FIELDS = new Set(["code", "key"]);
const PASSCODE = /^\d{6}$/;

/** Secrets that are recognised wherever they stand in a text. */
const TOKENS: readonly [RegExp, string][] = [
  [/svc_live_[A-Za-z0-9_-]+/g, `svc_live_${REDACTED}`],
  [/whsec_[A-Za-z0-9+/=_-]+/g, `whsec_${REDACTED}`],
  // The password of `scheme://user:password@host`. The pattern does not begin at the scheme, which any run of
  // letters may be: in a long one, a match would be tried from each letter. It ends with the last @ before the
  // path, since a password may contain one.
  [/(:\/\/[^\s/:@]*):[^\s/]+@/g, `$1:${REDACTED}@`],
];

const MAX_DEPTH = 8;

/**
 * A copy that is safe to write: secret fields replaced, known tokens taken out of strings, errors
 * reduced to name, message, code, stack and cause (a driver's error carries the row it failed on).
 */
export function redact(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) return "[deep]";
  if (value instanceof Error) return redactError(value, depth);
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1));
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Date || value instanceof URL) return redactText(value.toJSON());
  if (value instanceof Map || value instanceof Headers)
    return redact(Object.fromEntries(value), depth);
  if (value instanceof Set) return redact([...value], depth);
  const safe: Record<string, unknown> = {};
  for (const [field, inner] of Object.entries(value))
    safe[field] = redactField(field, inner, depth);
  return safe;
}

/** The text without API keys, signing secrets and passwords in URLs. */
export function redactText(text: string): string {
  let safe = text;
  for (const [pattern, replacement] of TOKENS) safe = safe.replace(pattern, replacement);
  return safe;
}

function redactField(field: string, value: unknown, depth: number): unknown {
  const name = field.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
  if (SECRET_FIELDS.has(name) && value !== null && value !== undefined) return REDACTED;
  if (PASSCODE_FIELDS.has(name) && PASSCODE.test(String(value))) return REDACTED;
  return redact(value, depth + 1);
}

function redactError(error: Error, depth: number): Record<string, unknown> {
  const safe: Record<string, unknown> = {
    type: error.name,
    message: redactText(error.message),
  };
  if ("code" in error && typeof error.code === "string") safe["code"] = error.code;
  if (error.stack !== undefined) safe["stack"] = redactText(error.stack);
  if (error.cause !== undefined) safe["cause"] = redact(error.cause, depth + 1);
  if (error instanceof AggregateError) safe["errors"] = redact(error.errors, depth + 1);
  return safe;
}
