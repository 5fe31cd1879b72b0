import { DependencyUnavailable, LockHeld } from "../domain/ports/dependency-unavailable.ts";
import { DEADLOCK, LOCK_NOT_AVAILABLE, READ_ONLY, sqlState } from "./sql-state.ts";

/** SQLSTATEs of errors that pass; the statement itself is not at fault. */
const UNAVAILABLE_STATES = new Set([
  "57P01", // admin_shutdown
  "57P02", // crash_shutdown
  "57P03", // cannot_connect_now: starting up, in recovery
  "57P05", // idle_session_timeout
  "25P03", // idle_in_transaction_session_timeout: this process had stood still
  "25P04", // transaction_timeout, which a role may have
  "57014", // query_canceled: only our own statement_timeout cancels
  DEADLOCK,
  LOCK_NOT_AVAILABLE,
  READ_ONLY, // we still talk to a demoted primary
]);

const SOCKET_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT", // the unix socket is not there
]);

/** pg and pg-pool raise these without a code; the texts are theirs (pg 8). */
const MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|The server closed|Cannot use a pool after calling end)/;

/** Whether an error of pg means that PostgreSQL cannot be used right now. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isConnectionError);
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  if (code === undefined) return MESSAGES.test(error.message);
  // Class 08, connection exceptions; class 53, insufficient resources: disk, memory, connections; class 58,
  // errors of the system below PostgreSQL: a disk that fails for a moment.
  return SOCKET_CODES.has(code) || UNAVAILABLE_STATES.has(code) || /^(?:08|53|58)/.test(code);
}

/**
 * Whether the connection should be closed: the error does not come from the server, or the server takes no writes
 * any more (its name may lead to another server by now).
 */
export function isBrokenConnection(error: unknown): boolean {
  if (!isConnectionError(error)) return false;
  return !("severity" in (error as Error)) || sqlState(error) === READ_ONLY;
}

/**
 * OpenSSL's and Node's names for a certificate that is refused (UNSPECIFIED: such as for a weak key), a key that cannot
 * be used, and a handshake that fails.
 */
const TLS_CODES =
  /^(?:CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_|ERROR_IN_C|PATH_LENGTH_|HOSTNAME_MISMATCH|UNSPECIFIED|EPROTO|ERR_TLS_|ERR_SSL_|ERR_OSSL_)/;

/**
 * pg's messages about a server without TLS, or not a PostgreSQL server; and one that asks for a password when we
 * have none.
 */
const REFUSAL_MESSAGES =
  /^(?:The server does not support SSL connections|There was an error establishing an SSL connection|SASL: )/;

/**
 * Whether the server, or pg, refuses a connection. Class 28 (password, pg_hba.conf, a role that may not log in); a
 * database that does not exist; a database that takes no connections, or none of this role (`CheckMyDatabase`: its
 * SQLSTATEs are also those of failed statements); a setting that cannot be made; a refused certificate.
 */
export function isRefusedByServer(error: Error): boolean {
  const code = sqlState(error) ?? "";
  if (/^(?:28|3D000)/.test(code) || TLS_CODES.test(code)) return true;
  if ("routine" in error && error.routine === "CheckMyDatabase") return true;
  // It ends no session for what a statement says, but refuses one for a wrong setting in the URL's `options`, or of the
  // role. Where the server's messages are in another language, the word may be another.
  if ("severity" in error && error.severity === "FATAL" && !isConnectionError(error)) return true;
  return REFUSAL_MESSAGES.test(error.message);
}

/**
 * Whether a connection was refused although the server is there: by the server, or by our own system, which has no
 * file descriptor or port left.
 */
export function isConnectionRefused(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isConnectionRefused);
  return error instanceof Error && ("syscall" in error || isRefusedByServer(error));
}

/** Connection-class errors become DependencyUnavailable, or LockHeld; every other error stays what it is. */
export function translateError(error: unknown): unknown {
  if (!isConnectionError(error)) return error;
  const Kind = sqlState(error) === LOCK_NOT_AVAILABLE ? LockHeld : DependencyUnavailable;
  return new Kind("postgres", { cause: error });
}

/** Runs `work` and translates what it throws. */
export async function withTranslatedErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translateError(error);
  }
}
