import type { Monotonic } from "../domain/ports/clock.ts";

export interface TokenBucket {
  /** Takes a token when there is one. */
  take(): boolean;
  /** Milliseconds until there is one; 0 when there is. */
  wait(): number;
}

/** `burst` at once, `perSecond` in the long run. */
export function createTokenBucket(options: {
  perSecond: number;
  burst: number;
  monotonic: Monotonic;
}): TokenBucket {
  const { perSecond, burst, monotonic } = options;
  let tokens = burst;
  let filledAt = monotonic();
  const fill = () => {
    const now = monotonic();
    tokens = Math.min(burst, tokens + ((now - filledAt) / 1_000) * perSecond);
    filledAt = now;
  };
  return {
    take() {
      fill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    wait() {
      fill();
      return tokens >= 1 ? 0 : Math.ceil(((1 - tokens) / perSecond) * 1_000);
    },
  };
}
