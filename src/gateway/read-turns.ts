import type { Timers } from "../domain/ports/clock.ts";
import { createFairSemaphore } from "../waiting/fair-semaphore.ts";
import { withTimeout } from "../waiting/within.ts";
import { tooMuchAtOnce } from "./errors.ts";
import { QUEUE_TIMEOUT_MS } from "./queue-timeout.ts";

/** Runs `read` when it is the account's turn. Throws ApiError 429 when that does not come in time. */
export type InTurn = <T>(account: string, read: () => Promise<T>) => Promise<T>;

/**
 * Lets `atOnce` of a process's reads for lists run at a time. Accounts take turns: one with many reads in the queue
 * delays another account's next read by one of its own.
 */
export function createReadTurns(options: { atOnce: number; timers: Timers }): InTurn {
  const turns = createFairSemaphore({ atOnce: options.atOnce });
  return async (account, read) => {
    const patience = { ms: QUEUE_TIMEOUT_MS, timers: options.timers };
    const mine = await withTimeout(patience, (signal) => turns.acquire(signal, account));
    if (!mine) throw tooMuchAtOnce("too many lists are being read: try again later");
    try {
      return await read();
    } finally {
      turns.release();
    }
  };
}

/**
 * Reads for every ten connections to PostgreSQL, and never more: their results are held in memory, up to 256 KiB for
 * each job.
 */
const READS_AT_ONCE = 4;
const PAGES_AT_ONCE = 2;
/** Lists of jobs that are being read: each keeps its pages in memory until the last one has come. */
const LISTS_AT_ONCE = 4;

/**
 * Turns for pages of jobs, and for what else lists read. They leave some of the process's connections to PostgreSQL
 * free (of two, one): every request needs one to be authenticated.
 */
export function createListTurns(options: { connections: number; timers: Timers }): {
  read: InTurn;
  page: InTurn;
  /** For all pages of a list of jobs together. */
  list: InTurn;
} {
  const { connections, timers } = options;
  const turns = (ofTen: number) => {
    const share = Math.floor((ofTen * connections) / 10);
    return createReadTurns({ atOnce: Math.min(ofTen, Math.max(1, share)), timers });
  };
  const read = turns(READS_AT_ONCE);
  const list = createReadTurns({ atOnce: LISTS_AT_ONCE, timers });
  return { read, page: connections > 2 ? turns(PAGES_AT_ONCE) : read, list };
}
