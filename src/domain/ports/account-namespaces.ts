/** By namespace, which incarnation of it is bound to whom: a text to be compared. */
export type Bindings = ReadonlyMap<string, string>;

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
  /** All bindings there are; the same object while none changes. */
  bindings(): Promise<Bindings>;
  /**
   * The bindings some seconds after one was made, moved or ended since these, when `accountOf` tells of it already.
   * Undefined as soon as the signal aborts. Never rejects: it goes on asking.
   */
  changedSince(bindings: Bindings, signal: AbortSignal): Promise<Bindings | undefined>;
}
