import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";

/** The SQLSTATE of a PostgreSQL error (PostgreSQL, Appendix A), also when it was wrapped. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && typeof error.code === "string") return error.code;
  return sqlState(error.cause);
}

/** deadlock_detected: the other side goes on, and this one may try again. */
export const DEADLOCK = "40P01";
/** lock_not_available: lock_timeout. */
export const LOCK_NOT_AVAILABLE = "55P03";
/** read_only_sql_transaction. */
export const READ_ONLY = "25006";

/**
 * Whether a statement was rolled back for the content of one of its rows: classes 22, 23 and 54, which are data
 * exceptions, violated constraints, and limits such as the size of an index entry. A DependencyUnavailable may have
 * such a cause (the cast by which `sqlAssertion` fails), and is none.
 */
export function isRowFault(error: unknown): boolean {
  return !(error instanceof DependencyUnavailable) && /^(22|23|54)/.test(sqlState(error) ?? "");
}
