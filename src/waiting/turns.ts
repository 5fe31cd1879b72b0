/**
 * Lets so many work at a time, the others wait in the order in which they came. Where they are of several parties,
 * the parties take turns, so that one with many does not hold up one with few.
 */
export interface Turns {
  /**
   * True: it is the caller's turn, until it says `done`. False: the signal or `close` came first, or too many
   * wait already. Those who name no party are one party.
   */
  take(signal?: AbortSignal, party?: string): Promise<boolean>;
  /** Once for each turn. */
  done(): void;
  waiting(): number;
  /** Those who wait, and whoever comes yet, get no turn. */
  close(): void;
}

export function createTurns(options: { atOnce: number; maxWaiting?: number }): Turns {
  const { maxWaiting = Infinity } = options;
  let free = options.atOnce;
  let closed = false;
  /** By party; the one whose turn is next, first. */
  const waiting = new Map<string, Set<(turn: boolean) => void>>();
  let count = 0;

  return {
    take: async (signal, party = "") => {
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
    done: () => {
      // It passes from hand to hand: who comes in between does not get ahead of those who wait.
      const [first] = waiting;
      if (!first) {
        free += 1;
        return;
      }
      const [party, theirs] = first;
      const [next] = theirs;
      waiting.delete(party);
      if (theirs.size > 1) waiting.set(party, theirs);
      next?.(true);
    },
    waiting: () => count,
    close: () => {
      closed = true;
      for (const theirs of waiting.values()) for (const answer of theirs) answer(false);
    },
  };
}
