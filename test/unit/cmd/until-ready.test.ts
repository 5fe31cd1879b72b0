import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { untilReady } from "../../../cmd/until-ready.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test.each([
  { ends: "it is ready", readyAt: 4, abortAt: Infinity, asked: 4 },
  { ends: "the process is to end", readyAt: Infinity, abortAt: 2, asked: 2 },
])("asks every second until $ends", async ({ readyAt, abortAt, asked }) => {
  const ending = new AbortController();
  let times = 0;
  const done = untilReady(async () => {
    times += 1;
    if (times === abortAt) ending.abort();
    if (times > asked) throw new Error("it asks on and on");
    return { status: times >= readyAt ? "degraded" : "starting", dependencies: {} };
  }, ending.signal);
  await vi.advanceTimersByTimeAsync((asked - 1) * 1_000);
  await done;
  expect(times).toBe(asked);
});
