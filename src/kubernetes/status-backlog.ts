/** Jobs whose stored status is behind. The namespaces take turns; within one the oldest comes first. */
export interface StatusBacklog {
  /** A job that is in it already keeps its place. */
  add(job: { uid: string; namespace: string; since: number }): void;
  /** Whose turn it is, of jobs behind since `before` or longer and not `busy`. It stays until taken or deleted. */
  next(before: number, busy: ReadonlySet<string>): string | undefined;
  /** The job has its turn: it is removed, and its namespace goes to the end of the queue. */
  take(uid: string): void;
  /** The job needs no turn any more: it is removed, and its namespace keeps its place. */
  delete(uid: string): void;
  clear(): void;
  readonly size: number;
}

/** Writes are bounded for all together: changes of thousands of jobs in one namespace must not delay the others. */
export function createStatusBacklog(): StatusBacklog {
  /** Namespace → uid → since when; the namespace whose turn is next, first. */
  const waiting = new Map<string, Map<string, number>>();
  const namespaces = new Map<string, string>();

  function remove(uid: string): void {
    const namespace = namespaces.get(uid);
    if (namespace === undefined) return;
    namespaces.delete(uid);
    const theirs = waiting.get(namespace);
    theirs?.delete(uid);
    if (theirs?.size === 0) waiting.delete(namespace);
  }

  return {
    add({ uid, namespace, since }) {
      if (namespaces.has(uid)) return;
      namespaces.set(uid, namespace);
      const theirs = waiting.get(namespace) ?? new Map<string, number>();
      waiting.set(namespace, theirs.set(uid, since));
    },
    next(before, busy) {
      for (const theirs of waiting.values())
        for (const [uid, since] of theirs) {
          if (since > before) break;
          if (!busy.has(uid)) return uid;
        }
      return undefined;
    },
    take(uid) {
      const namespace = namespaces.get(uid) ?? "";
      remove(uid);
      const others = waiting.get(namespace);
      if (others === undefined) return;
      waiting.delete(namespace);
      waiting.set(namespace, others);
    },
    delete: remove,
    clear() {
      waiting.clear();
      namespaces.clear();
    },
    get size() {
      return namespaces.size;
    },
  };
}
