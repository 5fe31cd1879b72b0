import type { ClaimedRun } from "../run.ts";

/**
 * Header values that a job takes from Secrets, resolved at each attempt (Kubernetes only). Throws
 * DependencyUnavailable when they cannot be asked for now.
 */
export type SecretHeaders = (run: ClaimedRun) => Promise<SecretHeaderValues>;

export type SecretHeaderValues =
  | { kind: "resolved"; headers: Readonly<Record<string, string>> }
  /** A Secret is missing, or not released for this use; the text is for the job's owner. */
  | { kind: "unavailable"; error: string };
