import type { Timers } from "../domain/ports/clock.ts";
import { createTurns } from "../waiting/turns.ts";
import { tooMuchAtOnce } from "./errors.ts";

/** Runs `read` when it is the account's turn. Throws ApiError 429 when that does not come in time. */
export type InTurn = <T>(account: string, read: () => Promise<T>) => Promise<T>;

/** How long a read waits for its turn: a store that hangs must not make a queue of hours. */
const PATIENCE_MS = 20_000;

/**
 * Lets so many reads of a process for lists run at a time. The accounts take turns: one with many in the queue holds
 * up another's by one of them.
 */
export function createReadTurns(options: { atOnce: number; timers: Timers }): InTurn {
  const turns = createTurns({ atOnce: options.atOnce });
  return async (account, read) => {
    const late = new AbortController();
    const patience = options.timers.after(PATIENCE_MS, () => {
      late.abort();
    });
    const mine = await turns.take(late.signal, account);
    patience.cancel();
    if (!mine) throw tooMuchAtOnce("too many lists are being read: try again later");
    try {
      return await read();
    } finally {
      turns.done();
    }
  };
}
