import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { createCircuitBreakers } from "../../../src/delivery/circuit-breaker.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

// Not the FakeTime of other tests: opossum sets a timer of its own.
beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "Date", "performance"],
    now: 1_000_000,
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** opossum counts in promise callbacks. */
function settled(): Promise<unknown> {
  return new Promise(setImmediate);
}

function breakers(options: { resetMs?: number; max?: number } = {}) {
  const transitions: string[] = [];
  const made = createCircuitBreakers({
    clock: { now: Date.now, known: true },
    monotonic,
    timers,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    onTransition: ({ destination, state }) => transitions.push(`${destination} ${state}`),
    resetMs: 20,
    windowMs: 30_000,
    ...options,
  });
  const admitted = (destination: string) => {
    const admission = made.admit(destination);
    if (admission.kind !== "admitted") throw new Error("not admitted");
    return admission.permit;
  };
  const fail = async (destination: string, times: number) => {
    for (let n = 0; n < times; n += 1) {
      admitted(destination).settle("failure");
      await settled();
    }
  };
  return { made, admitted, transitions, fail };
}

test("a destination that never fails has no breaker", async () => {
  const { made, admitted } = breakers();
  for (let n = 0; n < 100; n += 1) admitted("d").settle("success");
  expect(made.size).toBe(0);
});

test("opens after five failures, lets one probe through, and closes on its success", async () => {
  const { made, admitted, transitions, fail } = breakers();
  await fail("d", 4);
  expect(made.admit("d").kind).toBe("admitted");
  await fail("d", 1);
  expect(made.admit("d")).toMatchObject({ kind: "open", until: 1_000_020 });
  vi.advanceTimersByTime(20);
  const probe = admitted("d");
  expect(made.admit("d")).toMatchObject({ kind: "open", until: 1_002_020 });
  probe.settle("success");
  await settled();
  expect(transitions).toEqual(["d open", "d half_open", "d closed"]);
  expect(made.admit("d").kind).toBe("admitted");
  made.close();
});

test("a probe that told nothing, or failed, opens it again", async () => {
  const { made, admitted, transitions, fail } = breakers();
  await fail("d", 5);
  for (const result of ["neutral", "failure"] as const) {
    vi.advanceTimersByTime(20);
    expect(transitions.at(-1)).toBe("d half_open");
    admitted("d").settle(result);
    await settled();
    expect(transitions.at(-1)).toBe("d open");
  }
  made.close();
});

test("destinations do not share a breaker, and quiet closed ones are dropped", async () => {
  const { made, fail } = breakers({ resetMs: 60_000 });
  await fail("bad", 5);
  await fail("once", 1);
  expect(made.admit("bad").kind).toBe("open");
  expect(made.admit("good").kind).toBe("admitted");
  expect(made.size).toBe(2);
  // Quiet for a window of 30 s, which is looked at every 10 s.
  vi.advanceTimersByTime(40_000);
  expect(made.size).toBe(1);
  expect(made.admit("bad").kind).toBe("open");
  made.close();
});

test("the number of breakers is bounded; open ones stay", async () => {
  const { made, fail } = breakers({ resetMs: 60_000, max: 3 });
  await fail("bad", 5);
  for (const destination of ["a", "b", "c", "d"]) await fail(destination, 1);
  expect(made.size).toBe(3);
  expect(made.admit("bad").kind).toBe("open");
  made.close();
});
