import { PasswordsBusy } from "../domain/ports/accounts.ts";

export interface PasswordWork {
  /** Runs `work` around one or more `hash`. Throws PasswordsBusy at once when too many others are admitted. */
  admit<T>(work: () => Promise<T>): Promise<T>;
  /** Runs `derive` when its turn has come, first come, first served. */
  hash<T>(derive: () => Promise<T>): Promise<T>;
}

/**
 * Bounds what anybody can make a process do by asking for sign-ins. A hash holds one of libuv's four threads for
 * some 50 ms and 19 MiB: files and DNS names need threads too, and whoever waits longer than a second or two has
 * given up, or is no person.
 */
export function createPasswordWork(limits: { atOnce: number; waiting: number }): PasswordWork {
  const most = limits.atOnce + limits.waiting;
  let admitted = 0;
  let hashing = 0;
  const turns: (() => void)[] = [];
  return {
    async admit(work) {
      if (admitted >= most) throw new PasswordsBusy();
      admitted += 1;
      try {
        return await work();
      } finally {
        admitted -= 1;
      }
    },
    async hash(derive) {
      // Who ends hands the place over: nobody who comes in between takes it.
      if (hashing < limits.atOnce) hashing += 1;
      else await new Promise<void>((resolve) => turns.push(resolve));
      try {
        return await derive();
      } finally {
        const next = turns.shift();
        if (next) next();
        else hashing -= 1;
      }
    },
  };
}

/** Of this process. */
export const passwordWork = createPasswordWork({ atOnce: 2, waiting: 32 });
