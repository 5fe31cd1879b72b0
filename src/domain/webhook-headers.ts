import type { Finding } from "./findings.ts";
import { HEADER_NAME, HEADER_VALUE, LIMITS } from "./schema/fields.ts";

/**
 * Headers that a job's author cannot set: they frame the request (RFC 9112), belong to the connection,
 * or are the ones we sign and identify the call with.
 */
export const RESERVED_WEBHOOK_HEADERS: ReadonlySet<string> = new Set([
  "host",
  "connection",
  "content-length",
  "content-type",
  "content-encoding",
  "transfer-encoding",
  "keep-alive",
  "te",
  "trailer",
  "upgrade",
  "expect",
  "date",
  "via",
  "http2-settings",
  "accept-encoding",
  "user-agent",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "forwarded",
]);
export const RESERVED_WEBHOOK_HEADER_PREFIXES = ["webhook-", "carillon-", "proxy-", "sec-"];

const NAME = new RegExp(HEADER_NAME);
const VALUE = new RegExp(HEADER_VALUE);

export function isReservedWebhookHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return (
    RESERVED_WEBHOOK_HEADERS.has(lower) ||
    RESERVED_WEBHOOK_HEADER_PREFIXES.some((prefix) => lower.startsWith(prefix))
  );
}

/** The rule for a header's value, in words. */
export const WEBHOOK_HEADER_VALUE_RULE =
  "must be printable ASCII without line breaks and without spaces around it";

export function isWebhookHeaderValue(value: string): boolean {
  return VALUE.test(value);
}

/**
 * What is wrong with a job's own headers; also a name given twice in different spellings, of which only one would
 * be sent.
 */
export function webhookHeaderFindings(headers: Readonly<Record<string, string>>): Finding[] {
  const findings: Finding[] = [];
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const field = `webhook_headers.${name}`;
    const lower = name.toLowerCase();
    if (name.length > LIMITS.headerName || !NAME.test(name))
      findings.push({ field, message: "is not a valid header name" });
    else if (isReservedWebhookHeader(name))
      findings.push({ field, message: "is reserved and cannot be set" });
    if (seen.has(lower)) findings.push({ field, message: "is given twice" });
    seen.add(lower);
    if (!VALUE.test(value)) findings.push({ field, message: WEBHOOK_HEADER_VALUE_RULE });
  }
  return findings;
}
