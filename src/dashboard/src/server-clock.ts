/** Smaller differences are ignored: the header has whole seconds, and an answer takes its time. */
const LEAST_MS = 10_000;

let aheadMs = 0;

/**
 * Learns the server's time from the Date header of an answer (RFC 9110 6.6.1). The browser's clock may be hours off:
 * what has just happened would lie in the future. `askedAt`: when the request went out. An answer that was long under
 * way, or that waited while the computer slept, tells an old time and is ignored.
 */
export function hearServerClock(date: string | null, askedAt: number, now = Date.now()): void {
  if (Math.abs(now - askedAt) >= LEAST_MS) return;
  const ahead = Date.parse(date ?? "") - now;
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < LEAST_MS ? 0 : ahead;
}

/** Milliseconds since the epoch. */
export function serverNow(now = Date.now()): number {
  return now + aheadMs;
}
