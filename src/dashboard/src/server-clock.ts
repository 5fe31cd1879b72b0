/** Less than this says nothing: the header has whole seconds, and an answer takes its time. */
const LEAST_MS = 10_000;

let aheadMs = 0;

/**
 * What the server's clock says, by the Date header of an answer (RFC 9110 6.6.1). A browser's own may be hours
 * off, and what has just happened would lie in the future. `asked`: when the request went out. An answer that was
 * long under way, or that a computer looks at after its sleep, says what time it was then.
 */
export function hearServerClock(date: string | null, asked: number, now = Date.now()): void {
  if (Math.abs(now - asked) >= LEAST_MS) return;
  const ahead = Date.parse(date ?? "") - now;
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < LEAST_MS ? 0 : ahead;
}

/** Milliseconds since the epoch. */
export function serverNow(now = Date.now()): number {
  return now + aheadMs;
}
