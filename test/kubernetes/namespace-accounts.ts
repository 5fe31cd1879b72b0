import type { AccountNamespaces } from "../../src/domain/ports/account-namespaces.ts";

/** Bindings for tests that are not about bindings: the account of a namespace is `account-of-NAMESPACE`. */
export function namespaceAccounts(bound: Iterable<string>): AccountNamespaces & {
  bind(namespace: string): string;
} {
  const namespaces = new Set(bound);
  const namespaceOf = (account: string) => {
    const namespace = account.replace(/^account-of-/, "");
    return namespaces.has(namespace) ? namespace : undefined;
  };
  return {
    bind(namespace) {
      namespaces.add(namespace);
      return `account-of-${namespace}`;
    },
    forget: () => undefined,
    bindings: async () => new Map(),
    changedSince: (_bindings, signal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve(undefined))),
    async accountOf(namespace) {
      return namespaces.has(namespace) ? `account-of-${namespace}` : null;
    },
    namespaceOf: async (account) => namespaceOf(account),
    bindingOf: async (account) => ({ namespace: namespaceOf(account), leaving: false }),
  };
}
