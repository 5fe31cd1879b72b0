import type { AccountNamespaces } from "../../src/domain/ports/account-namespaces.ts";

/** Bindings for tests that are not about bindings: the account of a namespace is `account-of-NAMESPACE`. */
export function namespaceAccounts(bound: Iterable<string>): AccountNamespaces & {
  bind(namespace: string): string;
} {
  const namespaces = new Set(bound);
  return {
    bind(namespace) {
      namespaces.add(namespace);
      return `account-of-${namespace}`;
    },
    forget: () => undefined,
    revision: async () => [...namespaces].join(),
    changedSince: (_revision, signal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve())),
    async accountOf(namespace) {
      return namespaces.has(namespace) ? `account-of-${namespace}` : null;
    },
    async namespaceOf(account) {
      const namespace = account.replace(/^account-of-/, "");
      return namespaces.has(namespace) ? namespace : undefined;
    },
  };
}
