import { SECOND, type Instant } from "./instant.ts";
import { mailFailureText, NO_SMTP_SETTINGS, type MailResult } from "./mail.ts";
import type { DeliveryOutcome } from "./run.ts";

/** Client errors that may go away: 408 Request Timeout, 425 Too Early, 429 Too Many Requests. */
const TEMPORARY = new Set([408, 425, 429]);

/**
 * A receiver's status. 2xx delivers; 410 halts the generation; 408, 425, 429 and 5xx may be tried again, and so may
 * statuses above 599, which count as 5xx (RFC 9110, 15); the rest is permanent, also redirects, which are not followed.
 */
export function classifyHttp(
  status: number,
  retryAfterHeader: string | null | undefined,
  now: Instant,
): DeliveryOutcome {
  if (status >= 200 && status < 300) return { kind: "delivered", httpStatus: status };
  const error = `the receiver answered ${status}`;
  if (status === 410) return { kind: "gone", httpStatus: 410, error };
  if (TEMPORARY.has(status) || status >= 500)
    return {
      kind: "retryable",
      httpStatus: status,
      error,
      retryAfterMs: parseRetryAfter(retryAfterHeader, now),
      answered: true,
    };
  if (status >= 300 && status < 400)
    return { kind: "permanent", httpStatus: status, error: `${error}; redirects are not followed` };
  return { kind: "permanent", httpStatus: status, error };
}

const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? .*(?:gmt|\d{4})$/i;

/** RFC 9110, 10.2.3: seconds or an HTTP date. Milliseconds from `now`; null when absent or malformed. */
export function parseRetryAfter(header: string | null | undefined, now: Instant): number | null {
  const value = header?.trim();
  if (value === undefined || value === "") return null;
  if (/^\d+$/.test(value)) return Number(value) * SECOND;
  if (!HTTP_DATE.test(value)) return null;
  // The form of asctime() names no zone and means GMT; Date.parse would read it in this machine's zone.
  const date = Date.parse(/ \d{4}$/.test(value) ? `${value} GMT` : value);
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

const UNKNOWN_ISSUER =
  "the {peer}'s certificate is of an authority that is not known here, or comes without the certificates in between";

/** Texts for people, without IP addresses: they must not tell what the guard protects. `{peer}`: see `networkError`. */
const NETWORK_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset by the {peer}",
  EPIPE: "connection closed by the {peer}",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  ETIMEDOUT: "timed out",
  ENOTFOUND: "host name not found",
  EAI_AGAIN: "host name could not be resolved for now",
  CONNECTION_CLOSED: "connection closed by the {peer}",
  ANSWER_TOO_LARGE: "the answer's headers are too large",
  ANSWER_MALFORMED: "the {peer}'s answer is not valid HTTP/1.1",
  BAD_HEADER: "one of the job's own headers cannot be sent",
  TLS_HANDSHAKE_TIMEOUT: "timed out while connecting",
  CERT_HAS_EXPIRED: "the {peer}'s certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the {peer}'s certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the {peer}'s certificate is of an authority that is not known here",
  CERT_NOT_YET_VALID: "the {peer}'s certificate is not valid yet",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_ISSUER,
  CERT_SIGNATURE_FAILURE: "the {peer}'s certificate cannot be verified",
  INVALID_PURPOSE:
    "the {peer}'s certificate, or one behind it, is not made for what it is used for",
  // For errors that Node has no code for; all of them are about certificates.
  UNSPECIFIED: "the {peer}'s certificate is refused; its key or its signature may be too weak",
  ERR_SSL_WRONG_VERSION_NUMBER: "the {peer} does not speak TLS",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "the {peer} does not speak TLS",
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: "the {peer} does not speak TLS 1.2 or 1.3",
  ERR_SSL_UNSUPPORTED_PROTOCOL: "the {peer} does not speak TLS 1.2 or 1.3",
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: "the {peer} does not speak HTTP/1.1",
  ERR_SSL_TLSV1_UNRECOGNIZED_NAME: "the {peer} does not know itself by this host name",
  // TLS 1.3 refuses after the handshake, and names the reason.
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    "the {peer} asks for a client certificate; there is none",
  // From Go's servers (Caddy, Traefik), for a name for which they have no certificate.
  ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR:
    "the {peer} broke off the TLS handshake; it may have no certificate for this host name",
  "ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE":
    "the {peer} refused the TLS handshake; it may ask for a client certificate",
  ERR_TLS_CERT_ALTNAME_INVALID: "the {peer}'s certificate is for another name",
};

/** No answer at all. Always retryable: it may be better next time. */
export function unanswered(
  error: string,
  destinationFault?: null,
): DeliveryOutcome & { kind: "retryable" } {
  return { kind: "retryable", httpStatus: 500, error, retryAfterMs: null, destinationFault };
}

/** Of an attempt that ended on our side. `sent`: the receiver may have got something of it. */
export function brokenOff(
  cause: "replaced" | "deleted" | "interrupted" | "internal error",
  { sent } = { sent: true },
): ReturnType<typeof unanswered> {
  return unanswered(`${cause}: ${sent ? "outcome unknown" : "nothing was sent"}`);
}

/** The text for an error of the network, or of TLS. `peer`: who was called; a mail's receiver is not its server. */
export function networkError(code: string | undefined, peer: "receiver" | "server"): string {
  if (code === undefined) return "network error";
  return (NETWORK_ERRORS[code] ?? `network error (${code})`).replaceAll("{peer}", peer);
}

/** RFC 5321, 4.2.1: 4yz is transient, 5yz permanent. No reply at all is network trouble. */
export function isRetryableSmtpReply(replyCode: number | undefined): boolean {
  return replyCode === undefined || (replyCode >= 400 && replyCode < 500);
}

/** The outcome of an email: 200 when the server accepted it, otherwise 500. */
export function classifyMail(result: MailResult): DeliveryOutcome {
  switch (result.kind) {
    case "accepted":
      return { kind: "delivered", httpStatus: 200 };
    case "unconfigured":
      return { kind: "permanent", httpStatus: 500, error: NO_SMTP_SETTINGS };
    case "failed":
      break;
  }
  const failure = {
    httpStatus: 500,
    error: mailFailureText(result),
    destinationFault: result.serverFault,
  };
  // `outcomeUnknown` is retryable as well: only jobs that asked for retries risk a second mail.
  return result.outcomeUnknown || result.retryable
    ? { ...failure, kind: "retryable", retryAfterMs: null }
    : { ...failure, kind: "permanent" };
}
