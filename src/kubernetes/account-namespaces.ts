import { LRUCache } from "lru-cache";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Accounts } from "../domain/ports/accounts.ts";
import type { Monotonic } from "../domain/ports/clock.ts";
import type { KubernetesClient } from "./client.ts";
import { namespaceUid } from "./namespace-uid.ts";

/** How long a binding may be wrong after it changed. A resync of the controller repairs the rest. */
const FRESH_MS = 5_000;
/** Namespaces of one cluster; beyond it the oldest are asked for again. */
const MAX_ENTRIES = 20_000;

/**
 * Bindings live in PostgreSQL, the namespace's uid in the API server: neither can be forged by somebody
 * who may only write in the namespace. Cached, because every event of a watch asks.
 */
export function createAccountNamespaces(dependencies: {
  accounts: Pick<Accounts, "byNamespace" | "get">;
  client: KubernetesClient;
  monotonic: Monotonic;
}): AccountNamespaces {
  const { accounts, client, monotonic } = dependencies;
  // `perf` keeps the cache on the clock that was passed in.
  const options = { max: MAX_ENTRIES, ttl: FRESH_MS, ttlResolution: 0, perf: { now: monotonic } };

  const accountByNamespace = new LRUCache<string, { account: string | null }>({
    ...options,
    async fetchMethod(namespace) {
      const uid = await namespaceUid(client, namespace);
      const account = uid === undefined ? undefined : await accounts.byNamespace(namespace, uid);
      return { account: account?.id ?? null };
    },
  });
  const namespaceByAccount = new LRUCache<string, { namespace: string | undefined }>({
    ...options,
    async fetchMethod(id) {
      const account = await accounts.get(id);
      if (!account || account.deletedAt !== null || account.namespace === null)
        return { namespace: undefined };
      const uid = await namespaceUid(client, account.namespace);
      if (uid === undefined) return { namespace: undefined };
      // Bound by name alone: asking for it binds it to the namespace that is there now.
      const bound =
        account.namespaceUid === null
          ? (await accounts.byNamespace(account.namespace, uid))?.id === id
          : account.namespaceUid === uid;
      return { namespace: bound ? account.namespace : undefined };
    },
  });

  return {
    async accountOf(namespace) {
      return (await accountByNamespace.forceFetch(namespace)).account;
    },
    async namespaceOf(account) {
      return (await namespaceByAccount.forceFetch(account)).namespace;
    },
  };
}
