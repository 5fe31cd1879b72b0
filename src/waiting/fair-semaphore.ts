/**
 * Lets a fixed number of callers work at a time; the others wait in the order in which they came. Parties take
 * turns, so that a party with many callers does not hold up one with few.
 */
export interface FairSemaphore {
  /**
   * True: it is the caller's turn, until it calls `release`. False: the signal or `close` came first, or too many
   * wait already. Callers that name no party are one party.
   */
  acquire(signal?: AbortSignal, party?: string): Promise<boolean>;
  /** To be called once for each turn. */
  release(): void;
  waiting(): number;
  /** From now on nobody gets a turn, neither those who wait nor later callers. */
  close(): void;
}

export function createFairSemaphore(options: {
  atOnce: number;
  maxWaiting?: number;
}): FairSemaphore {
  const { maxWaiting = Infinity } = options;
  let free = options.atOnce;
  let closed = false;
  /** Callers by party; first the party whose turn is next. */
  const waiting = new Map<string, Set<(turn: boolean) => void>>();
  let count = 0;

  return {
    acquire: async (signal, party = "") => {
      if (closed || signal?.aborted) return false;
      if (free > 0) {
        free -= 1;
        return true;
      }
      if (count >= maxWaiting) return false;
      return new Promise((resolve) => {
        const theirs = waiting.get(party) ?? new Set();
        const answer = (turn: boolean): void => {
          theirs.delete(answer);
          if (theirs.size === 0) waiting.delete(party);
          count -= 1;
          signal?.removeEventListener("abort", giveUp);
          resolve(turn);
        };
        const giveUp = (): void => {
          answer(false);
        };
        waiting.set(party, theirs.add(answer));
        count += 1;
        signal?.addEventListener("abort", giveUp, { once: true });
      });
    },
    release: () => {
      // The turn passes directly to the next who waits: a caller that comes in between cannot get ahead.
      const [first] = waiting;
      if (!first) {
        free += 1;
        return;
      }
      const [party, theirs] = first;
      const [next] = theirs;
      waiting.delete(party);
      waiting.set(party, theirs);
      next?.(true);
    },
    waiting: () => count,
    close: () => {
      closed = true;
      for (const theirs of waiting.values()) for (const answer of theirs) answer(false);
    },
  };
}
