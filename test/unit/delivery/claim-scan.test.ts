import { expect, test } from "vitest";
import { createClaimScan, type AnsweredClaim } from "../../../src/delivery/claim-scan.ts";
import type { ClaimExclusions } from "../../../src/delivery/held-runs.ts";

const NOBODY: ClaimExclusions = { accounts: [], destinations: [], jobs: [] };
const ONE: ClaimExclusions = { accounts: [], destinations: ["a"], jobs: [] };
const BOTH: ClaimExclusions = { accounts: ["b"], destinations: ["a"], jobs: [] };

/** PostgreSQL's clock is a million ahead of the monotonic one. */
const EPOCH = 1_000_000;

function scan() {
  let time = 0;
  const created = createClaimScan({ monotonic: () => time, poll: 1_000 });
  return {
    patience: () => created.patience,
    sleep: (ms: number) => (time += ms),
    news: (since: number | null) => {
      created.news(since);
    },
    /** A claim that gets no answer. */
    fail: () => created.next(NOBODY),
    /**
     * Makes a claim, and returns from where it looked, in milliseconds of the monotonic clock; undefined: none was
     * made.
     */
    claim: (
      claim: Partial<Omit<AnsweredClaim, "cutShortAt">> & {
        cutShortAt?: number;
        meanwhile?: () => void;
      } = {},
    ) => {
      const full = claim.full ?? NOBODY;
      const look = created.next(full);
      if (look === undefined) return undefined;
      const now = EPOCH + time;
      const tookMs = claim.tookMs ?? 0;
      time += tookMs;
      claim.meanwhile?.();
      const cutShortAt = claim.cutShortAt === undefined ? null : EPOCH + claim.cutShortAt;
      created.answered({ now, full, cutShortAt, tookMs });
      return look.from === null ? "all" : look.from - EPOCH;
    },
  };
}

test("a claim begins two seconds before the one that found nothing more", () => {
  const { claim, sleep } = scan();
  expect(claim()).toBe("all");
  sleep(300);
  expect(claim()).toBe(-2_000);
  sleep(100);
  expect(claim()).toBe(-1_700);
});

test("all are looked at again within a poll, and the rarer the longer that takes", () => {
  const { claim, sleep } = scan();
  expect(claim()).toBe("all");
  sleep(499);
  expect(claim()).toBe(-2_000);
  sleep(1);
  expect(claim({ tookMs: 400 })).toBe("all");
  sleep(500);
  expect(claim({ tookMs: 300 })).toBe("all");
  sleep(5_999);
  expect(claim({ tookMs: 30 })).toBe(-600);
  sleep(1);
  expect(claim()).toBe("all");
});

test("a look that PostgreSQL held up by standing still does not put off the next one", () => {
  const { claim, sleep } = scan();
  claim({ tookMs: 20 });
  sleep(500);
  expect(claim({ tookMs: 9_000 })).toBe("all");
  sleep(500);
  expect(claim()).toBe("all");
});

test("however long it takes, all are looked at every 30 s", () => {
  const { claim, sleep } = scan();
  claim({ tookMs: 9_000 });
  sleep(500);
  expect(claim({ tookMs: 9_000 })).toBe("all");
  sleep(29_999);
  expect(claim({ tookMs: 0 })).not.toBe("all");
  sleep(1);
  expect(claim()).toBe("all");
});

test("one that was cut short is followed by one that begins at its end", () => {
  const { claim } = scan();
  expect(claim({ cutShortAt: -50_000 })).toBe("all");
  expect(claim({ cutShortAt: -40_000 })).toBe(-50_000);
  expect(claim({ cutShortAt: 500 })).toBe(-40_000);
  expect(claim()).toBe(-2_000);
});

test("news of earlier runs are looked for, also those that come while a claim is under way", () => {
  const { claim, news } = scan();
  claim();
  news(EPOCH - 60_000);
  news(EPOCH - 30_000);
  news(EPOCH + 15_000);
  expect(claim()).toBe(-60_000);
  expect(
    claim({
      meanwhile: () => {
        news(EPOCH - 90_000);
      },
    }),
  ).toBe(-2_000);
  expect(claim()).toBe(-90_000);
  news(null);
  expect(claim()).toBe("all");
  expect(claim()).toBe(-2_000);
});

test("a claim that failed has found nothing", () => {
  const { claim, fail, news } = scan();
  claim();
  news(EPOCH - 60_000);
  fail();
  expect(claim()).toBe(-60_000);
});

test("who was passed over is found where their runs begin, once there is room for them", () => {
  const { claim, sleep } = scan();
  claim({ cutShortAt: -50_000 });
  expect(claim({ full: ONE, cutShortAt: -40_000 })).toBe(-50_000);
  expect(claim({ full: BOTH, cutShortAt: -30_000 })).toBe(-40_000);
  sleep(100);
  // One of the two is still full, and passed over again; the other's runs begin later.
  expect(claim({ full: ONE, cutShortAt: -39_000 })).toBe(-40_000);
  expect(claim({ full: ONE, cutShortAt: -30_000 })).toBe(-39_000);
  expect(claim()).toBe(-50_000);
  expect(claim()).toBe(-1_900);
});

test("news of runs before those of whoever has room again are looked for all the same", () => {
  const { claim, news } = scan();
  claim();
  expect(claim({ full: ONE })).toBe(-2_000);
  news(EPOCH - 60_000);
  expect(claim()).toBe(-60_000);
});

test("while the rest is theirs nobody looks, until news come, or one has room, or half a poll", () => {
  const { claim, sleep, news } = scan();
  claim();
  expect(claim({ full: ONE })).toBe(-2_000);
  expect(claim({ full: ONE })).toBeUndefined();
  expect(claim({ full: BOTH })).toBeUndefined();
  news(EPOCH + 1_000);
  expect(claim({ full: BOTH })).toBe(-2_000);
  expect(claim({ full: BOTH })).toBeUndefined();
  expect(claim({ full: ONE })).toBe(-2_000);
  expect(claim({ full: ONE })).toBeUndefined();
  sleep(500);
  expect(claim({ full: ONE })).toBe("all");
  sleep(600);
  // Half a poll counts from its start: the next poll must look again.
  expect(claim({ full: ONE, tookMs: 300 })).toBe("all");
  sleep(200);
  // News came while it looked: the next look begins there.
  const meanwhile = (): void => {
    news(EPOCH - 7_000);
  };
  expect(claim({ full: ONE, meanwhile })).toBe(-900);
  expect(claim({ full: ONE })).toBe(-7_000);
});

test("whose runs begin long ago holds up nobody who is full for a moment", () => {
  const { claim, sleep } = scan();
  claim({ cutShortAt: -90_000 });
  // The runs of the one begin back there, those of the other where that claim stopped.
  expect(claim({ full: ONE })).toBe(-90_000);
  sleep(10);
  expect(claim({ full: BOTH, meanwhile: () => undefined })).toBeUndefined();
  sleep(600);
  expect(claim({ full: BOTH })).toBe("all");
  sleep(10);
  expect(claim({ full: ONE })).toBe(-2_000);
  expect(claim()).toBe(-90_000);
});

test("the longer it takes to read past the full, the longer they are passed over", () => {
  const { claim, patience } = scan();
  expect(patience()).toBe(25);
  claim({ tookMs: 500 });
  claim({ full: ONE, cutShortAt: 0, tookMs: 500 });
  expect(patience()).toBe(25);
  claim({ full: BOTH, tookMs: 30 });
  expect(patience()).toBe(600);
  claim({ tookMs: 1 });
  claim({ full: ONE, tookMs: 400 });
  // Not longer than a poll, which looks for them in any case.
  expect(patience()).toBe(1_000);
});
