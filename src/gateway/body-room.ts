import type { Timers } from "../domain/ports/clock.ts";
import { type ApiError, tooMuchAtOnce } from "./errors.ts";
import { PATIENCE_MS } from "./patience.ts";

export interface BodyRoom {
  /**
   * Runs `work`, which reads a body of up to so many bytes and answers, when there is room for it. It says how many
   * `came`, when they have: the others are room again. Throws ApiError 429 when there is none in time.
   */
  within<T>(
    of: { account: string; bytes: number },
    work: (came: (bytes: number) => void) => Promise<T>,
  ): Promise<T>;
}

/** Bytes. What is smaller is bounded well enough: by the connections, and by how many mails may wait. */
const SMALL = 65_536;
/** Of one account: its crowd is cheap to send, and must not be what others are refused for. */
const MOST_WAITING = 100;

interface Waiting {
  account: string;
  bytes: number;
  entered: () => void;
}

/**
 * Bounds the request bodies that a process has in its memory: a body stays there, several times over, until
 * its mail has been sent, which a slow server draws out. Whoever comes while there is no room waits, and its
 * body stays with the client. A body whose size nobody knows before needs room for the largest, until it is
 * there. One account may have half of the room. One body that is larger than that counts as half, so that a
 * slow one never keeps all others out.
 */
export function createBodyRoom(options: { bytes: number; timers: Timers }): BodyRoom {
  const { bytes: room, timers } = options;
  const share = room / 2;
  const byAccount = new Map<string, number>();
  const waiting = new Set<Waiting>();
  let used = 0;

  /**
   * In the order in which they came. Who waits for others of its account holds up its account alone; who waits
   * for the room holds up all behind it, or smaller ones would keep it waiting for ever.
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
    const before = [...waiting].filter((other) => other.account === account);
    if (before.length >= MOST_WAITING) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      const patience = timers.after(PATIENCE_MS, () => {
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

  /** What of the room a body of so many bytes takes. */
  const taken = (bytes: number) => (bytes < SMALL ? 0 : Math.min(bytes, share));

  return {
    async within(of, work) {
      let held = taken(of.bytes);
      if (held === 0) return work(() => undefined);
      await enter(of.account, held);
      try {
        return await work((bytes) => {
          const before = held;
          held = Math.min(before, taken(bytes));
          leave(of.account, before - held);
        });
      } finally {
        leave(of.account, held);
      }
    },
  };
}

function tooMany(): ApiError {
  return tooMuchAtOnce(
    "too many large requests are being worked on: send fewer at a time, or try again later",
  );
}
