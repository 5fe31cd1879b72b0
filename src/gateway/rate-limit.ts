import { LRUCache } from "lru-cache";
import type { Monotonic } from "../domain/ports/clock.ts";
import { createTokenBucket, type TokenBucket } from "../waiting/token-bucket.ts";
import { ApiError } from "./errors.ts";

export interface RateLimits {
  /** Requests a second that one API key, or client, may make in the long run. */
  perSecond: number;
  /** Requests that it may make at once. */
  burst: number;
}

/** Buckets that are remembered. The least recently used one drops out: it would be full again anyway. */
const MOST_BUCKETS = 10_000;

/** Token buckets by name, in this process; each is full at first. */
export function createTokenBuckets(
  limits: RateLimits & { monotonic: Monotonic },
): (name: string) => TokenBucket {
  const buckets = new LRUCache<string, TokenBucket>({ max: MOST_BUCKETS });
  return (name) => {
    let bucket = buckets.get(name);
    if (!bucket) {
      bucket = createTokenBucket(limits);
      buckets.set(name, bucket);
    }
    return bucket;
  };
}

/**
 * A token bucket for each API key, in this process: with n gateways a key has n times the rate.
 * `take` returns the headers of the answer, or throws ApiError 429.
 */
export function createRateLimiter(limits: RateLimits & { monotonic: Monotonic }): {
  take(keyId: string): Record<string, string>;
} {
  const { perSecond, burst } = limits;
  const bucketOf = createTokenBuckets(limits);
  return {
    take(keyId) {
      const bucket = bucketOf(keyId);
      const allowed = bucket.take();
      const { left } = bucket;
      const headers = {
        "RateLimit-Limit": String(burst),
        "RateLimit-Remaining": String(Math.floor(left)),
        "RateLimit-Reset": String(Math.ceil((burst - left) / perSecond)),
      };
      if (allowed) return headers;
      throw new ApiError(
        "rate_limited",
        "too many requests for this API key: wait as many seconds as Retry-After says",
        { headers, retryAfterSeconds: (1 - left) / perSecond },
      );
    },
  };
}
