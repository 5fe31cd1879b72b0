/** Jobs whose stored status is behind: one of each namespace after the other, in each the oldest first. */
export interface StatusBacklog {
  /** One that is in it already keeps its place. */
  add(job: { uid: string; namespace: string; since: number }): void;
  /** Whose turn it is, of those behind since `before` or longer, without the `busy`. It stays until deleted. */
  next(before: number, busy: ReadonlySet<string>): string | undefined;
  delete(uid: string): void;
  clear(): void;
  readonly size: number;
}

/** Writes are bounded for all together: who changes thousands of jobs in one namespace delays nobody else's. */
export function createStatusBacklog(): StatusBacklog {
  /** Namespace → uid → since when; the namespace whose turn is next, first. */
  const waiting = new Map<string, Map<string, number>>();
  const namespaces = new Map<string, string>();

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
    delete(uid) {
      const namespace = namespaces.get(uid);
      const theirs = namespace === undefined ? undefined : waiting.get(namespace);
      if (namespace === undefined || theirs === undefined) return;
      namespaces.delete(uid);
      theirs.delete(uid);
      waiting.delete(namespace);
      if (theirs.size > 0) waiting.set(namespace, theirs);
    },
    clear() {
      waiting.clear();
      namespaces.clear();
    },
    get size() {
      return namespaces.size;
    },
  };
}
