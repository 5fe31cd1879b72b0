import type { Monotonic } from "../domain/ports/clock.ts";

export interface TokenBucket {
  /** Takes a token when there is one. */
  take(): boolean;
  /** Tokens, fractions included, after the last `take`. */
  readonly left: number;
}

/** Allows `burst` tokens at once, and `perSecond` in the long run. */
export function createTokenBucket(options: {
  perSecond: number;
  burst: number;
  monotonic: Monotonic;
}): TokenBucket {
  const { perSecond, burst, monotonic } = options;
  let tokens = burst;
  let filledAt = monotonic();
  return {
    take() {
      const now = monotonic();
      tokens = Math.min(burst, tokens + ((now - filledAt) / 1_000) * perSecond);
      filledAt = now;
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    get left() {
      return tokens;
    },
  };
}
