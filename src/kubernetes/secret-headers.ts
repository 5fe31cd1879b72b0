import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Timers } from "../domain/ports/clock.ts";
import { isResourceName } from "../domain/kubernetes-name.ts";
import type { SecretHeaders, SecretHeaderValues } from "../domain/ports/secret-headers.ts";
import { isWebhookHeaderValue, WEBHOOK_HEADER_VALUE_RULE } from "../domain/webhook-headers.ts";
import { pause } from "../waiting/pause.ts";
import { ApiError, throwAsUnavailable, isNotFound } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";

/** A Secret's owner releases it for webhooks with this label; nothing else is ever read. */
const RELEASE_LABEL = "carillon.dev/webhook-headers";
/**
 * So many refusals in a row count as one: an API server that has just started refuses everybody until it has read the
 * rights.
 */
const MOST_REFUSALS = 5;
const REFUSED_MS = 1_000;

interface Secret {
  metadata: { labels?: Record<string, string> };
  data?: Record<string, string>;
}

/**
 * Values of `headersFrom`, read at each attempt so that a rotated Secret counts at once. Only from the
 * namespace that the run's account is bound to now, and only from Secrets with the release label: the right to
 * write jobs must not be enough to send away every Secret of the namespace. Throws DependencyUnavailable when
 * the API server cannot be asked: then nothing has been attempted.
 */
export function createSecretHeaders(dependencies: {
  client: KubernetesClient;
  accountNamespaces: Pick<AccountNamespaces, "namespaceOf">;
  timers: Timers;
  /** CARILLON_HEADER_SECRET_NAMESPACES: Secrets of no other are read, whatever the API server's RBAC allows. */
  namespaces: readonly string[];
}): SecretHeaders {
  const { client, accountNamespaces, timers, namespaces } = dependencies;

  async function readSecret(namespace: string, name: string): Promise<Secret | string> {
    // Such a name, as a part of a path, could name something else.
    if (!isResourceName(name)) return notReleased(name);
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(name)}`;
    for (let refusals = 1; ; refusals += 1) {
      try {
        return await client.call<Secret>({
          verb: "get",
          resource: "secrets",
          path,
          timeoutMs: 5_000,
        });
      } catch (error) {
        if (isNotFound(error)) return notReleased(name);
        if (!(error instanceof ApiError) || error.code !== 403) return throwAsUnavailable(error);
        if (refusals === MOST_REFUSALS) return notListed(namespace);
      }
      await pause(REFUSED_MS, timers);
    }
  }

  return async (run) => {
    const { target } = run.spec;
    if (target.kind !== "webhook" || target.headersFrom.length === 0)
      return { kind: "resolved", headers: {} };
    const namespace = await accountNamespaces.namespaceOf(run.account).catch(throwAsUnavailable);
    if (namespace === undefined) return unavailable("the account is bound to no namespace");
    if (!namespaces.includes(namespace)) return unavailable(notListed(namespace));
    const headers = new Map<string, string>();
    // Each Secret is read once: values that belong together, like a user name and its password, are of one version.
    const read = new Map<string, Secret | string>();
    for (const { header, secretName, secretKey } of target.headersFrom) {
      const secret = read.get(secretName) ?? (await readSecret(namespace, secretName));
      read.set(secretName, secret);
      if (typeof secret === "string") return unavailable(`header ${header}: ${secret}`);
      if (secret.metadata.labels?.[RELEASE_LABEL] !== "true")
        return unavailable(`header ${header}: ${notReleased(secretName)}`);
      const { data = {} } = secret;
      // Own members only: a key may be called constructor.
      const encoded = Object.hasOwn(data, secretKey) ? data[secretKey] : undefined;
      if (encoded === undefined)
        return unavailable(`header ${header}: Secret ${secretName} has no key ${secretKey}`);
      // `echo | base64` leaves a trailing line break, which is never meant.
      const value = Buffer.from(encoded, "base64")
        .toString("utf8")
        .replace(/\r?\n$/, "");
      if (!isWebhookHeaderValue(value))
        return unavailable(
          `header ${header}: the value in Secret ${secretName} ${WEBHOOK_HEADER_VALUE_RULE}`,
        );
      headers.set(header, value);
    }
    // Not assigned one by one: a header called __proto__ would be lost.
    return { kind: "resolved", headers: Object.fromEntries(headers) };
  };
}

/** One text for a missing Secret and for one without the label: authors of jobs must not learn which Secrets exist. */
function notReleased(name: string): string {
  return `no Secret ${name} carries the label ${RELEASE_LABEL}=true in the job's namespace`;
}

function notListed(namespace: string): string {
  return `this installation may not read Secrets in namespace ${namespace}; the operator lists it in headerSecretNamespaces`;
}

function unavailable(error: string): SecretHeaderValues {
  return { kind: "unavailable", error };
}
