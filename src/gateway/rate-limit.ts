import { TokenBucket } from "limiter";
import { LRUCache } from "lru-cache";
import { ApiError } from "./errors.ts";

export interface RateLimits {
  /** Requests a second that one API key may make for long. */
  perSecond: number;
  /** Requests that it may make at once. */
  burst: number;
}

/** Keys that are remembered; one that falls out starts with a full bucket, which it would have had. */
const MOST_KEYS = 10_000;

/**
 * A token bucket for each API key, in this process: with n gateways a key has n times the rate.
 * `take` returns the headers of the answer, or throws ApiError 429.
 */
export function createRateLimiter({ perSecond, burst }: RateLimits): {
  take(keyId: string): Record<string, string>;
} {
  const buckets = new LRUCache<string, TokenBucket>({ max: MOST_KEYS });
  return {
    take(keyId) {
      let bucket = buckets.get(keyId);
      if (!bucket) {
        bucket = new TokenBucket({
          bucketSize: burst,
          tokensPerInterval: perSecond,
          interval: "second",
        });
        // The package starts with an empty bucket.
        bucket.content = burst;
        buckets.set(keyId, bucket);
      }
      const allowed = bucket.tryRemoveTokens(1);
      const headers = {
        "RateLimit-Limit": String(burst),
        "RateLimit-Remaining": String(Math.max(0, Math.floor(bucket.content))),
        "RateLimit-Reset": String(Math.ceil((burst - bucket.content) / perSecond)),
      };
      if (allowed) return headers;
      throw new ApiError(
        "rate_limited",
        "too many requests for this API key: wait as many seconds as Retry-After says",
        { headers, retryAfterSeconds: bucket.getWaitTime(1) / 1_000 },
      );
    },
  };
}
