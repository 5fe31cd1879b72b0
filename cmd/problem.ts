import { ConfigurationError } from "../src/configuration/configuration.ts";
import { StartProblem } from "../src/configuration/start-problem.ts";
import { InvalidInput } from "../src/domain/findings.ts";
import { NamespaceInUse } from "../src/domain/ports/accounts.ts";
import { DependencyUnavailable } from "../src/domain/ports/dependency-unavailable.ts";
import { isRefusedByServer } from "../src/postgres/connection-errors.ts";
import { UnknownKeyId, WrongKey } from "../src/postgres/key-ring.ts";
import {
  DatabaseNotUtf8,
  DatabaseTooNew,
  DatabaseTooOld,
  MigrationFailed,
  ServerTooOld,
  RoleTooWeak,
} from "../src/postgres/migrate.ts";
import { TransactionPooling } from "../src/postgres/transaction-pooling.ts";
import { sqlState } from "../src/postgres/sql-state.ts";
import { redactText } from "../src/telemetry/redact.ts";

/** Errors whose message says what to do. */
const FOR_PEOPLE = [
  ConfigurationError,
  StartProblem,
  InvalidInput,
  NamespaceInUse,
  DatabaseTooNew,
  DatabaseTooOld,
  ServerTooOld,
  DatabaseNotUtf8,
  MigrationFailed,
  RoleTooWeak,
  TransactionPooling,
  UnknownKeyId,
  WrongKey,
];

/**
 * Describes a problem that a person can do something about, in one line each; undefined for a fault of ours, which
 * is reported with its stack. `databaseUrl`, and any other URL, appears without its password; `lookAt` says where
 * to look when the problem is the database.
 */
export function problemOf(
  error: unknown,
  databaseUrl?: string,
  lookAt = "DATABASE_URL",
): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (FOR_PEOPLE.some((kind) => error instanceof kind)) return redactText(error.message);
  if (error instanceof DependencyUnavailable && error.dependency === "kubernetes")
    return `the Kubernetes API does not answer: ${redactText(rootCause(error).message)}`;
  if (error instanceof DependencyUnavailable)
    return databaseProblem(databaseUrl, rootCause(error).message, lookAt);
  const state = sqlState(error) ?? "";
  if (UNKNOWN_AUTHORITY.test(state))
    return databaseProblem(
      databaseUrl,
      `its certificate is of an authority that is not known here (${state}): in the URL, sslrootcert=FILE names a file with the authority's certificate`,
      lookAt,
    );
  // 42501: not permitted.
  if (isRefusedByServer(error) || state === "42501")
    return databaseProblem(databaseUrl, rootCause(error).message, lookAt);
  return fileProblem(error);
}

/** Prints the problem, or the fault with its stack, and sets the exit code to 1. */
export function reportFailure(error: unknown, databaseUrl?: string, lookAt?: string): void {
  const problem = problemOf(error, databaseUrl, lookAt);
  const text = problem ?? (error instanceof Error ? (error.stack ?? error.message) : String(error));
  for (const line of text.split("\n"))
    process.stderr.write(problem === undefined ? `${redactText(line)}\n` : `carillon: ${line}\n`);
  process.exitCode = 1;
}

/** Node's own message says nothing about what to do, or names an option of Node. */
const UNKNOWN_AUTHORITY = /^(?:SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)_)/;

/** A full disk, or a file that may not be read: Node's message names it. */
function fileProblem(error: Error): string | undefined {
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall === undefined || code === undefined) return undefined;
  if ("path" in error || code === "ENOSPC" || code === "EDQUOT") return error.message;
  return undefined;
}

function databaseProblem(url: string | undefined, reason: string, lookAt: string): string {
  const given = url === undefined ? null : URL.parse(url);
  const place = given?.host || given?.searchParams.get("host");
  const at = place ? ` at ${place.replaceAll(/%2f/gi, "/")}` : "";
  return `PostgreSQL${at} cannot be used: ${redactText(reason.replaceAll("\n", " "))} (${lookAt})`;
}

function rootCause(error: Error): Error {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return error.errors[0];
  return error.cause instanceof Error ? rootCause(error.cause) : error;
}
