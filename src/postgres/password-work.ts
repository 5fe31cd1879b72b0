import { PasswordsBusy } from "../domain/ports/accounts.ts";
import { createTurns } from "../waiting/turns.ts";

export interface PasswordWork {
  /**
   * Runs `work` around one or more `hash`. Throws PasswordsBusy at once when too many others are admitted, or as many
   * of `party` as one may have.
   */
  admit<T>(party: string, work: () => Promise<T>): Promise<T>;
  /** Runs `derive` when its turn has come, first come, first served. */
  hash<T>(derive: () => Promise<T>): Promise<T>;
}

/**
 * Bounds what anybody can make a process do by asking for sign-ins. A hash holds one of libuv's four threads for
 * some 50 ms and 19 MiB: files and DNS names need threads too, and whoever waits longer than a second or two has
 * given up, or is no person. One party alone does not take all the places.
 */
export function createPasswordWork(limits: {
  atOnce: number;
  waiting: number;
  ofOneParty: number;
}): PasswordWork {
  const most = limits.atOnce + limits.waiting;
  let admitted = 0;
  /** Of the parties that have any. */
  const theirs = new Map<string, number>();
  const turns = createTurns({ atOnce: limits.atOnce });
  return {
    async admit(party, work) {
      const own = theirs.get(party) ?? 0;
      if (admitted >= most || own >= limits.ofOneParty) throw new PasswordsBusy();
      admitted += 1;
      theirs.set(party, own + 1);
      try {
        return await work();
      } finally {
        admitted -= 1;
        const left = (theirs.get(party) ?? 1) - 1;
        if (left === 0) theirs.delete(party);
        else theirs.set(party, left);
      }
    },
    async hash(derive) {
      await turns.take();
      try {
        return await derive();
      } finally {
        turns.done();
      }
    },
  };
}

/** Of this process. */
export const passwordWork = createPasswordWork({ atOnce: 2, waiting: 32, ofOneParty: 4 });
