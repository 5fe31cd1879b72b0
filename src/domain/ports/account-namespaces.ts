/**
 * Which account a namespace belongs to, both ways (docs/architecture.md: accounts are namespaces). The
 * binding is by name and uid: a namespace that was deleted and made again is another one.
 */
export interface AccountNamespaces {
  /** The live account bound to this namespace as it exists now; null when there is none. */
  accountOf(namespace: string): Promise<string | null>;
  /** Undefined when the account is bound to no namespace, or its namespace is gone. */
  namespaceOf(account: string): Promise<string | undefined>;
}
