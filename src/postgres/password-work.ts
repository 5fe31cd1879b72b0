import { PasswordsBusy } from "../domain/ports/accounts.ts";
import { createFairSemaphore } from "../waiting/fair-semaphore.ts";

export interface PasswordWork {
  /**
   * Runs `work`, which calls `hash` once or more. Throws PasswordsBusy at once when too many are admitted already,
   * in all or of this party.
   */
  admit<T>(party: string, work: () => Promise<T>): Promise<T>;
  /** Runs `derive` when its turn has come, first come, first served. */
  hash<T>(derive: () => Promise<T>): Promise<T>;
}

/**
 * Bounds the work that sign-ins can make for a process. A hash holds one of libuv's four threads for some 50 ms,
 * and 19 MiB; files and DNS names need these threads too. A longer queue would be for nothing: people do not wait
 * for more than a second or two. One party alone cannot take all places.
 */
export function createPasswordWork(limits: {
  atOnce: number;
  waiting: number;
  ofOneParty: number;
}): PasswordWork {
  const most = limits.atOnce + limits.waiting;
  let admitted = 0;
  /** How many are admitted, by party. */
  const byParty = new Map<string, number>();
  const turns = createFairSemaphore({ atOnce: limits.atOnce });
  return {
    async admit(party, work) {
      const own = byParty.get(party) ?? 0;
      if (admitted >= most || own >= limits.ofOneParty) throw new PasswordsBusy();
      admitted += 1;
      byParty.set(party, own + 1);
      try {
        return await work();
      } finally {
        admitted -= 1;
        const left = (byParty.get(party) ?? 1) - 1;
        if (left === 0) byParty.delete(party);
        else byParty.set(party, left);
      }
    },
    async hash(derive) {
      await turns.acquire();
      try {
        return await derive();
      } finally {
        turns.release();
      }
    },
  };
}

/** For the whole process. */
export const passwordWork = createPasswordWork({ atOnce: 2, waiting: 32, ofOneParty: 4 });
