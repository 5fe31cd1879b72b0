import type { AccountNamespaces } from "../domain/ports/account-namespaces.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";

/** Nobody moves an account more often while one request waits. */
const MAX_TRIES = 3;
const RETRY_SECONDS = 1;

/**
 * Works in an account's namespace. Which that is comes from a cache, so the binding is read once more after the work,
 * when whatever it met there has been met: work in a namespace that the account has left counts for nothing and is
 * done once more in the right one.
 */
export function createInNamespace(
  accountNamespaces: Pick<AccountNamespaces, "bindingOf" | "forget" | "namespaceOf">,
) {
  /**
   * With `undo` it is work that leaves something behind. It takes that away again unless the account is known to be
   * bound there still, and to stay until somebody has looked for what it leaves (`Accounts.bind`). Throws
   * DependencyUnavailable while that cannot be known.
   */
  return async <T>(
    account: string,
    work: (namespace: string | undefined) => Promise<T>,
    undo?: (done: T) => Promise<void>,
  ): Promise<T> => {
    let namespace = await accountNamespaces.namespaceOf(account);
    for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
      const done = await work(namespace);
      let now: Awaited<ReturnType<AccountNamespaces["bindingOf"]>>;
      try {
        now = await accountNamespaces.bindingOf(account);
      } catch (error) {
        await undo?.(done);
        throw error;
      }
      const undecided = undo !== undefined && now.leaving;
      if (now.namespace === namespace && !undecided) return done;
      await undo?.(done);
      if (undecided) break;
      // What else the cache says may be as old.
      accountNamespaces.forget();
      ({ namespace } = now);
    }
    throw new DependencyUnavailable("kubernetes", {
      retryAfterSeconds: RETRY_SECONDS,
      cause: new Error("the account is being bound to another namespace"),
    });
  };
}
