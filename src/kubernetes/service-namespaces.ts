import { LRUCache } from "lru-cache";
import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import type { Monotonic, Timers } from "../domain/ports/clock.ts";
import { throwAsUnavailable } from "./api-error.ts";

/**
 * For how long the last answer is used without asking again. Many calls then ask once, and an account that is bound to
 * another namespace soon calls the Services there.
 */
const FRESH_MS = 30_000;
/** How long a new answer is waited for when there is an old one: a connection has ten seconds in all. */
const PATIENCE_MS = 3_000;
const MAX_ACCOUNTS = 20_000;

/**
 * The namespace whose Services an account may call, for the guarded dial. While the API server is away the last
 * answer is used, so that queued runs are delivered. Rejects with DependencyUnavailable when there was none yet,
 * and a run waits.
 */
export function createServiceNamespaces(dependencies: {
  accountNamespaces: Pick<AccountNamespaces, "namespaceOf">;
  monotonic: Monotonic;
  timers: Timers;
}): (account: string) => Promise<string | null> {
  const { accountNamespaces, monotonic, timers } = dependencies;
  const known = new LRUCache<string, { namespace: string | null; at: number }>({
    max: MAX_ACCOUNTS,
  });
  const asking = new Map<string, Promise<string | null>>();

  function ask(account: string): Promise<string | null> {
    const underWay = asking.get(account);
    if (underWay) return underWay;
    const answer = accountNamespaces
      .namespaceOf(account)
      .then((found) => {
        const namespace = found ?? null;
        known.set(account, { namespace, at: monotonic() });
        return namespace;
      })
      .catch(throwAsUnavailable)
      .finally(() => asking.delete(account));
    asking.set(account, answer);
    return answer;
  }

  return async (account) => {
    const last = known.get(account);
    if (last && monotonic() - last.at < FRESH_MS) return last.namespace;
    const answer = ask(account);
    if (!last) return answer;
    const impatience = Promise.withResolvers<string | null>();
    const timer = timers.after(PATIENCE_MS, () => {
      impatience.resolve(last.namespace);
    });
    try {
      return await Promise.race([answer.catch(() => last.namespace), impatience.promise]);
    } finally {
      timer.cancel();
    }
  };
}
