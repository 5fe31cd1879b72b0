import { expect, test } from "vitest";
import { createTokenBucket } from "../../../src/waiting/token-bucket.ts";

test("a burst at once, then so many a second; what is saved up is a burst and no more", () => {
  let now = 0;
  const bucket = createTokenBucket({ perSecond: 2, burst: 3, monotonic: () => now });
  const takeAll = () => {
    let taken = 0;
    while (taken < 100 && bucket.take()) taken += 1;
    return taken;
  };
  expect(takeAll()).toBe(3);
  // Whoever asks in vain has no more for it.
  for (now of [300, 499]) expect(takeAll()).toBe(0);
  now = 500;
  expect(takeAll()).toBe(1);
  now = 60_000;
  expect(takeAll()).toBe(3);
});
