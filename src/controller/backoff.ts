import type { Random } from "../domain/ports/clock.ts";

const FIRST_MS = 100;
const LAST_MS = 5_000;

/** The delay before the n-th retry in a row: doubles from 0.1 s to 5 s, half of it jitter. */
export function backoffMs(failures: number, random: Random): number {
  const ceiling = Math.min(LAST_MS, FIRST_MS * 2 ** Math.min(failures, 10));
  return ceiling * (0.5 + random() / 2);
}
