import { LRUCache } from "lru-cache";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-down.ts";
import type { ClaimedRun } from "../domain/run.ts";
import { isWebhookHeaderValue } from "../domain/webhook-headers.ts";
import { ApiError, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";

/** Released for webhook headers by whoever may write Secrets in the namespace. */
export const HEADER_SECRET_LABEL = "carillon.dev/webhook-headers";

/** A herd of jobs with one Secret asks once; a rotated value is used after this at the latest. */
const FRESH_MS = 2_000;
const MAX_SECRETS = 1_000;
const TIMEOUT_MS = 5_000;

interface Secret {
  metadata: { labels?: Record<string, string> };
  data?: Record<string, string>;
}

/**
 * Values for `headersFrom`, read at each attempt. Only Secrets of the account's namespace that carry the
 * label `carillon.dev/webhook-headers=true`, and only in namespaces that the operator listed: whoever may
 * write jobs must not be able to send any Secret anywhere. The texts of failures go into the execution;
 * they do not tell a Secret that is missing from one that is not released.
 */
export function createHeaderSecrets(dependencies: {
  client: Pick<KubernetesClient, "call">;
  accountNamespaces: Pick<AccountNamespaces, "namespaceOf">;
  /** CARILLON_HEADER_SECRET_NAMESPACES. */
  namespaces: readonly string[];
  monotonic: Monotonic;
}) {
  const { client, accountNamespaces, monotonic } = dependencies;
  const namespaces = new Set(dependencies.namespaces);
  const secrets = new LRUCache<string, { secret: Secret | undefined }>({
    max: MAX_SECRETS,
    ttl: FRESH_MS,
    ttlResolution: 0,
    perf: { now: monotonic },
    async fetchMethod(path) {
      try {
        const call = { verb: "get", resource: "secrets", path, timeoutMs: TIMEOUT_MS } as const;
        return { secret: await client.call<Secret>(call) };
      } catch (error) {
        if (isNotFound(error)) return { secret: undefined };
        throw error;
      }
    },
  });

  return async (
    run: Pick<ClaimedRun, "account" | "spec">,
  ): Promise<
    { kind: "resolved"; headers: Record<string, string> } | { kind: "unavailable"; error: string }
  > => {
    const { target } = run.spec;
    const headers: Record<string, string> = {};
    if (target.kind !== "webhook") return { kind: "resolved", headers };
    try {
      const namespace = await accountNamespaces.namespaceOf(run.account);
      if (namespace === undefined) return unavailable("the account is bound to no namespace");
      if (!namespaces.has(namespace))
        return unavailable(
          `headersFrom is not enabled in namespace ${namespace}: its operator adds it to headerSecretNamespaces (CARILLON_HEADER_SECRET_NAMESPACES)`,
        );
      for (const { header, secretName, secretKey } of target.headersFrom) {
        const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(secretName)}`;
        const { secret } = await secrets.forceFetch(path);
        if (secret?.metadata.labels?.[HEADER_SECRET_LABEL] !== "true")
          return unavailable(
            `header ${header}: Secret ${secretName} does not exist or lacks the label ${HEADER_SECRET_LABEL}=true`,
          );
        const encoded = secret.data?.[secretKey];
        if (encoded === undefined)
          return unavailable(`header ${header}: Secret ${secretName} has no key ${secretKey}`);
        // `kubectl create secret --from-file` keeps the editor's last line break.
        const value = Buffer.from(encoded, "base64").toString("utf8").trim();
        if (!isWebhookHeaderValue(value))
          return unavailable(
            `header ${header}: the value of key ${secretKey} in Secret ${secretName} is not a valid header value`,
          );
        headers[header] = value;
      }
      return { kind: "resolved", headers };
    } catch (error) {
      if (error instanceof DependencyUnavailable)
        return unavailable("headersFrom: the Kubernetes API does not answer");
      if (error instanceof ApiError && error.code === 403)
        return unavailable("headersFrom: Carillon may not read Secrets in this namespace");
      throw error;
    }
  };
}

function unavailable(error: string): { kind: "unavailable"; error: string } {
  return { kind: "unavailable", error };
}
