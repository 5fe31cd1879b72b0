import type { Random } from "../domain/ports/clock.ts";

const LIMITS = { leastMs: 100, mostMs: 5_000 };

/** Milliseconds to wait before another try: the least, doubled `doublings` times, up to the most; half is jitter. */
export function backoffMs(doublings: number, random: Random, limits = LIMITS): number {
  const ceiling = Math.min(limits.mostMs, limits.leastMs * 2 ** doublings);
  return ceiling * (0.5 + random() / 2);
}
