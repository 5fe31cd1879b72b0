import type { SecretHeader } from "../domain/job.ts";
import { isResourceName } from "../domain/kubernetes-name.ts";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Timers } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { SecretHeaders, SecretHeaderValues } from "../domain/ports/secret-headers.ts";
import { isWebhookHeaderValue, WEBHOOK_HEADER_VALUE_RULE } from "../domain/webhook-headers.ts";
import { createFairSemaphore } from "../waiting/fair-semaphore.ts";
import { pause } from "../waiting/pause.ts";
import { withTimeout } from "../waiting/within.ts";
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
/** Milliseconds for one read, the wait for its turn included: a delivery holds a slot meanwhile. */
const READ_MS = 5_000;
/**
 * Secrets that are read at a time, the namespaces in turn. Each may have more than a megabyte; and the client's other
 * connections are for those who list, watch and write status.
 */
const AT_ONCE = 16;

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

  const turns = createFairSemaphore({ atOnce: AT_ONCE });

  /** Throws as `KubernetesClient.call` does. */
  async function read(namespace: string, name: string): Promise<Secret> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(name)}`;
    const reason = new DependencyUnavailable("kubernetes", {
      cause: new Error(`get ${path}: not read within ${READ_MS} ms`),
    });
    return withTimeout({ ms: READ_MS, timers, reason }, async (signal) => {
      if (!(await turns.acquire(signal, namespace))) throw reason;
      try {
        return await client.call<Secret>({ verb: "get", resource: "secrets", path, signal });
      } finally {
        turns.release();
      }
    });
  }

  async function readSecret(namespace: string, name: string): Promise<Secret | string> {
    // Such a name, as a part of a path, could name something else.
    if (!isResourceName(name)) return notReleased(name);
    for (let refusals = 1; ; refusals += 1) {
      try {
        return await read(namespace, name);
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
    // And only its values are kept while the next one is read.
    for (const [name, wanted] of Map.groupBy(target.headersFrom, (from) => from.secretName)) {
      const secret = await readSecret(namespace, name);
      for (const from of wanted) {
        const found = valueIn(secret, from);
        if ("missing" in found) return unavailable(`header ${from.header}: ${found.missing}`);
        headers.set(from.header, found.value);
      }
    }
    // Not assigned one by one: a header called __proto__ would be lost.
    return { kind: "resolved", headers: Object.fromEntries(headers) };
  };
}

/** `secret`: a text says why it cannot be had. */
function valueIn(
  secret: Secret | string,
  { secretName, secretKey }: SecretHeader,
): { value: string } | { missing: string } {
  if (typeof secret === "string") return { missing: secret };
  if (secret.metadata.labels?.[RELEASE_LABEL] !== "true")
    return { missing: notReleased(secretName) };
  const { data = {} } = secret;
  // Own members only: a key may be called constructor.
  const encoded = Object.hasOwn(data, secretKey) ? data[secretKey] : undefined;
  if (encoded === undefined) return { missing: `Secret ${secretName} has no key ${secretKey}` };
  // `echo | base64` leaves a trailing line break, which is never meant.
  const value = Buffer.from(encoded, "base64")
    .toString("utf8")
    .replace(/\r?\n$/, "");
  if (isWebhookHeaderValue(value)) return { value };
  return { missing: `the value in Secret ${secretName} ${WEBHOOK_HEADER_VALUE_RULE}` };
}

/** One text for a missing Secret and for one without the label: authors of jobs must not learn which Secrets exist. */
function notReleased(name: string): string {
  return `no Secret ${name} carries the label ${RELEASE_LABEL}=true in the job's namespace`;
}

function notListed(namespace: string): string {
  return `this installation may not read Secrets in namespace ${namespace}; an operator can allow it with headerSecretNamespaces (CARILLON_HEADER_SECRET_NAMESPACES)`;
}

function unavailable(error: string): SecretHeaderValues {
  return { kind: "unavailable", error };
}
