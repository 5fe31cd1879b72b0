import type { Random } from "../domain/ports/clock.ts";

const LEAST_MS = 100;
const MOST_MS = 5_000;

/** Milliseconds to wait before another try: 0.1 s, doubled `doublings` times, 5 s at most; half of it is jitter. */
export function backoffMs(doublings: number, random: Random): number {
  const ceiling = Math.min(MOST_MS, LEAST_MS * 2 ** doublings);
  return ceiling * (0.5 + random() / 2);
}
