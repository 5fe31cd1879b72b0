import type { Timers } from "../domain/ports/clock.ts";
import { type ApiError, tooMuchAtOnce } from "./errors.ts";
import { QUEUE_TIMEOUT_MS } from "./queue-timeout.ts";

export interface BodyRoom {
  /**
   * Runs `work`, which reads a body of at most `bytes` bytes and answers, when there is room for it. `work` calls
   * `came` with the size of the body that arrived: the rest becomes room again. Throws ApiError 429 when there is no
   * room in time.
   */
  within<T>(
    body: { account: string; bytes: number },
    work: (came: (bytes: number) => void) => Promise<T>,
  ): Promise<T>;
}

/** Bytes. Smaller bodies take no room: their connections and requests cost as much. */
const SMALL = 8_192;
/**
 * Waiting requests of one account, or more if their bodies are no larger than its share: Node reads up to 64 KiB of
 * each. A crowd of them is cheap to send, and must not get other accounts refused.
 */
const MOST_WAITING = 100;

/**
 * The room, in bytes, of a process whose heap and memory are limited to so many; a `memoryLimit` of 0 is none. Node
 * never sets the heap's limit below 256 MiB: in a container of less than 512 MiB half of the memory counts instead.
 */
export function bodyRoomBytes(of: { heapLimit: number; memoryLimit: number }): number {
  return Math.min(of.heapLimit, (of.memoryLimit || Infinity) / 2) / 16;
}

interface Waiting {
  account: string;
  bytes: number;
  entered: () => void;
}

/**
 * Bounds the request bodies that a process has in its memory: a body stays there, several times over, until
 * its mail has been sent, which a slow mail server draws out. A request that finds no room waits, and its body
 * stays with the client. A body of unknown size takes room for the largest until it has arrived. One account
 * may use half of the room. A single body that is larger than half counts as half, so that a slow one never
 * keeps all others out.
 */
export function createBodyRoom(options: { bytes: number; timers: Timers }): BodyRoom {
  const { bytes: room, timers } = options;
  const share = room / 2;
  const byAccount = new Map<string, number>();
  const waiting = new Set<Waiting>();
  let used = 0;

  /**
   * Admits in the order of arrival. A request that waits for others of its account holds up only that account. One
   * that waits for the room holds up all behind it: otherwise smaller ones could keep it waiting for ever.
   */
  function admit(): void {
    const heldUp = new Set<string>();
    for (const next of waiting) {
      const { account, bytes } = next;
      const own = byAccount.get(account) ?? 0;
      if (heldUp.has(account) || own + bytes > share) {
        heldUp.add(account);
        continue;
      }
      if (used + bytes > room) return;
      used += bytes;
      byAccount.set(account, own + bytes);
      waiting.delete(next);
      next.entered();
    }
  }

  function leave(account: string, bytes: number): void {
    used -= bytes;
    const left = (byAccount.get(account) ?? 0) - bytes;
    if (left > 0) byAccount.set(account, left);
    else byAccount.delete(account);
    admit();
  }

  function enter(account: string, bytes: number): Promise<void> {
    const ahead = [...waiting].filter((other) => other.account === account);
    const size = ahead.reduce((sum, other) => sum + other.bytes, bytes);
    if (ahead.length >= MOST_WAITING && size > share) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      const patience = timers.after(QUEUE_TIMEOUT_MS, () => {
        waiting.delete(mine);
        reject(tooMany());
        admit();
      });
      const mine: Waiting = {
        account,
        bytes,
        entered: () => {
          patience.cancel();
          resolve();
        },
      };
      waiting.add(mine);
      admit();
    });
  }

  /** How much of the room a body of `bytes` bytes takes. */
  const roomFor = (bytes: number) => (bytes < SMALL ? 0 : Math.min(bytes, share));

  return {
    async within(body, work) {
      let held = roomFor(body.bytes);
      if (held === 0) return work(() => undefined);
      await enter(body.account, held);
      try {
        return await work((bytes) => {
          const before = held;
          held = Math.min(before, roomFor(bytes));
          leave(body.account, before - held);
        });
      } finally {
        leave(body.account, held);
      }
    },
  };
}

function tooMany(): ApiError {
  return tooMuchAtOnce(
    "too many large requests are being worked on: send fewer at a time, or try again later",
  );
}
