import { expect, test } from "vitest";
import { createRateLimiter } from "../../../src/gateway/rate-limit.ts";

test("a burst goes through, then 429 with Retry-After; another key is not concerned", () => {
  const limiter = createRateLimiter({ perSecond: 0.001, burst: 3, monotonic: () => 0 });
  const remaining = [1, 2, 3].map(() => limiter.take("a")["RateLimit-Remaining"]);
  expect(remaining).toEqual(["2", "1", "0"]);
  expect(() => limiter.take("a")).toThrow(
    expect.objectContaining({
      code: "rate_limited",
      message: expect.stringContaining("Retry-After"),
      status: 429,
      headers: expect.objectContaining({
        "RateLimit-Limit": "3",
        "RateLimit-Remaining": "0",
        "RateLimit-Reset": "3000",
        "Retry-After": "1000",
      }),
    }),
  );
  expect(limiter.take("b")).toMatchObject({ "RateLimit-Remaining": "2" });
});

test("RateLimit-Reset is when the bucket is full again, in whole seconds and not before", () => {
  const limiter = createRateLimiter({ perSecond: 0.4, burst: 3, monotonic: () => 0 });
  expect(limiter.take("a")["RateLimit-Reset"]).toBe("3");
});
