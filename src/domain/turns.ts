/** So many at a time, in the order in which they came. */
export interface Turns {
  /**
   * True: it is the caller's turn, until it says `done`. False: the signal or `close` came first, or as
   * many wait already as may.
   */
  take(signal?: AbortSignal): Promise<boolean>;
  /** Once for each turn. */
  done(): void;
  /** Those who wait, and whoever comes yet, get no turn. */
  close(): void;
}

export function createTurns(options: { atOnce: number; maxWaiting?: number }): Turns {
  const { maxWaiting = Infinity } = options;
  let free = options.atOnce;
  let closed = false;
  const waiting = new Set<(turn: boolean) => void>();

  return {
    take: async (signal) => {
      if (closed || signal?.aborted) return false;
      if (free > 0) {
        free -= 1;
        return true;
      }
      if (waiting.size >= maxWaiting) return false;
      return new Promise((resolve) => {
        const answer = (turn: boolean): void => {
          waiting.delete(answer);
          signal?.removeEventListener("abort", giveUp);
          resolve(turn);
        };
        const giveUp = (): void => {
          answer(false);
        };
        waiting.add(answer);
        signal?.addEventListener("abort", giveUp, { once: true });
      });
    },
    done: () => {
      // It passes from hand to hand: who comes in between does not get ahead of those who wait.
      const [next] = waiting;
      if (next) next(true);
      else free += 1;
    },
    close: () => {
      closed = true;
      for (const answer of waiting) answer(false);
    },
  };
}
