/**
 * Which account a namespace belongs to, both ways (docs/kubernetes.md: accounts are namespaces). The
 * binding is by name and uid: a namespace that was deleted and made again is another one.
 */
export interface AccountNamespaces {
  /**
   * The live account bound to this namespace as it exists now; null when there is none. To ask for many, ask for all of
   * them at once: each is looked up once, and only so many at a time.
   */
  accountOf(namespace: string): Promise<string | null>;
  /** Undefined when the account is bound to no namespace, or its namespace is gone. May be seconds old. */
  namespaceOf(account: string): Promise<string | undefined>;
  /**
   * The same, and the binding never from before the call: for whoever has to know where the account was bound when
   * something was already done. `leaving`: the account may be about to move to another namespace.
   */
  bindingOf(account: string): Promise<{ namespace: string | undefined; leaving: boolean }>;
  /** From now on the answers are looked up anew: all of them, or that for this namespace. */
  forget(namespace?: string): void;
  /** All bindings as one comparable text; for `changedSince`. */
  revision(): Promise<string>;
  /**
   * Resolves some seconds after a binding was made, moved or ended since `revision`, when `accountOf`
   * tells of it already; or as soon as the signal aborts. Never rejects: it goes on asking.
   */
  changedSince(revision: string, signal: AbortSignal): Promise<void>;
}
