import { LRUCache } from "lru-cache";
import type { AccountNamespaces, Bindings } from "../domain/ports/account-namespaces.ts";
import type { Accounts, NamespaceBinding } from "../domain/ports/accounts.ts";
import type { Monotonic, Timers } from "../domain/ports/clock.ts";
import { ApiError } from "./api-error.ts";
import type { KubernetesClient } from "./client.ts";
import { namespaceUid } from "./namespace-uid.ts";
import { createGroupCommit } from "../waiting/group-commit.ts";
import { pause } from "../waiting/pause.ts";
import { createFairSemaphore } from "../waiting/fair-semaphore.ts";
import { untilAborted } from "../waiting/until-aborted.ts";

/** How long a binding may be wrong after it changed, and how often a change is looked for. */
const FRESH_MS = 5_000;
/** Namespaces in the cache; of more, the least recently used are looked up again. */
const MAX_ENTRIES = 20_000;
/** Namespaces whose account is looked up at a time: half of the client's connections, which others need too. */
const AT_ONCE = 16;

/**
 * Bindings live in PostgreSQL, the namespace's uid in the API server: neither can be forged by somebody
 * who may only write in the namespace. Cached, because every event of a watch asks.
 */
export function createAccountNamespaces(dependencies: {
  accounts: Pick<Accounts, "bindings" | "byNamespace" | "list">;
  client: KubernetesClient;
  monotonic: Monotonic;
  timers: Timers;
}): AccountNamespaces {
  const { accounts, client, monotonic, timers } = dependencies;
  // `perf` keeps the cache on the clock that was passed in.
  const fresh = { max: MAX_ENTRIES, ttl: FRESH_MS, ttlResolution: 0, perf: { now: monotonic } };

  /**
   * Part of every key. Raising it abandons older entries without deleting them: that would abort the fetches under
   * way, and fail their callers.
   */
  let epoch = 0;
  /** How often `forget` was called. */
  let forgets = 0;
  /** `forgets` when a namespace was last forgotten. An evicted entry does no harm: the binding expires by age. */
  const forgottenAt = new LRUCache<string, number>({ max: MAX_ENTRIES });
  let last: Bindings | undefined;
  const turns = createFairSemaphore({ atOnce: AT_ONCE });

  const accountByNamespace = new LRUCache<string, { account: string | null }>({
    ...fresh,
    async fetchMethod(key) {
      await turns.acquire();
      try {
        const namespace = nameIn(key);
        const uid = await namespaceUid(client, namespace);
        const account = uid === undefined ? undefined : await accounts.byNamespace(namespace, uid);
        return { account: account?.id ?? null };
      } finally {
        turns.release();
      }
    },
  });
  /** Uids of namespaces as they were last seen. */
  const seen = new LRUCache<string, string>(fresh);

  /** The namespace that the account is bound to, unless another is there now. */
  async function present(binding: NamespaceBinding): Promise<string | undefined> {
    const { account, namespace, namespaceUid: bound } = binding;
    const uid = await namespaceUid(client, namespace);
    if (uid === undefined) return undefined;
    seen.set(namespace, uid);
    // Bound by name alone: `byNamespace` binds the account to the incarnation that is there now.
    const here =
      bound === null ? (await accounts.byNamespace(namespace, uid))?.id === account : bound === uid;
    return here ? namespace : undefined;
  }

  const namespaceByAccount = new LRUCache<string, { namespace: string | undefined }>({
    ...fresh,
    async fetchMethod(key) {
      const [binding] = await accounts.bindings([nameIn(key)]);
      return { namespace: binding && (await present(binding)) };
    },
  });

  /** Those who come while others are answered share the next look. */
  const boundNow = createGroupCommit<string, { namespace: string | undefined; leaving: boolean }>({
    async commit(ids) {
      const bound = await accounts.bindings([...new Set(ids)]);
      const found = await Promise.all(
        bound.map(async (binding) => {
          const { account, namespace, namespaceUid: uid, leaving } = binding;
          // One made again has another uid, and nobody's jobs: that may be seen late. A binding may not.
          const known = uid !== null && seen.get(namespace) === uid;
          return [
            account,
            { namespace: known ? namespace : await present(binding), leaving },
          ] as const;
        }),
      );
      const answers = new Map(found);
      return ids.map((id) => answers.get(id) ?? { namespace: undefined, leaving: false });
    },
    pace: { timers, monotonic },
    maxRows: AT_ONCE,
    // One namespace that may not be looked at must not stop the others.
    isRowFault: (error) => error instanceof ApiError,
  });

  /** They are in PostgreSQL only, so that one statement reads all of them. */
  async function bindings(): Promise<Bindings> {
    const found = new Map<string, string>();
    for (const { id, namespace, namespaceUid } of await accounts.list())
      if (namespace !== null) found.set(namespace, `${id} ${namespaceUid ?? ""}`);
    if (last === undefined || namespacesBetween(last, found).length > 0) {
      epoch += 1;
      last = found;
    }
    return last;
  }

  let pending: Promise<Bindings> | undefined;

  /** Shared by all who wait, however many watches there are: it reads all accounts. */
  function nextBindings(): Promise<Bindings> {
    pending ??= pause(FRESH_MS, timers).then(() => {
      // A caller that comes while this reads may know of a change that this does not see.
      pending = undefined;
      return bindings();
    });
    return pending;
  }

  return {
    bindings,
    forget(namespace) {
      forgets += 1;
      if (namespace === undefined) epoch += 1;
      else forgottenAt.set(namespace, forgets);
    },
    async changedSince(before, signal) {
      for (;;) {
        // When PostgreSQL is away, no change can be seen.
        const now = await untilAborted(nextBindings(), signal).catch(() => before);
        if (signal.aborted) return undefined;
        if (namespacesBetween(before, now).length > 0) return now;
      }
    },
    async accountOf(namespace) {
      const key = `${epoch}.${forgottenAt.get(namespace) ?? 0}/${namespace}`;
      return (await accountByNamespace.forceFetch(key)).account;
    },
    bindingOf: (account) => boundNow.submit(account),
    async namespaceOf(account) {
      const key = `${epoch}.${forgets}/${account}`;
      return (await namespaceByAccount.forceFetch(key)).namespace;
    },
  };
}

function nameIn(key: string): string {
  return key.slice(key.indexOf("/") + 1);
}

/** The namespaces that are bound to somebody else, or as another incarnation, than they were. */
export function namespacesBetween(before: Bindings, now: Bindings): string[] {
  if (before === now) return [];
  const all = new Set([...before.keys(), ...now.keys()]);
  return [...all].filter((namespace) => before.get(namespace) !== now.get(namespace));
}
