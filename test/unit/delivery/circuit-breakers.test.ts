import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { createCircuitBreakers } from "../../../src/delivery/circuit-breakers.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";

// Not the FakeTime of other tests, because opossum sets a timer of its own.
beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "Date", "performance"],
    now: 1_000_000,
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Waits until opossum has counted, which it does in promise callbacks. */
function settled(): Promise<unknown> {
  return new Promise(setImmediate);
}

function breakers(options: { resetMs?: number; max?: number; maxPerAccount?: number } = {}) {
  const transitions: string[] = [];
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  const made = createCircuitBreakers({
    clock: { now: Date.now, known: true },
    monotonic,
    timers,
    metrics,
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
  const admittedTimes = (destination: string, times: number) =>
    Array.from({ length: times }, () => admitted(destination));
  const metric = async (line: string) =>
    (await metrics.render()).text.match(new RegExp(`^carillon_${line} (.*)$`, "m"))?.[1];
  return { made, admitted, admittedTimes, transitions, fail, metric };
}

/** A half-open circuit with the probe and thirteen earlier calls under way. */
async function halfOpenWithStragglers() {
  const all = breakers();
  const unknown = all.admittedTimes("d", 10);
  await all.fail("d", 1);
  const known = all.admittedTimes("d", 3);
  // Four failures: the calls that are under way do not count as failures.
  await all.fail("d", 3);
  expect(all.transitions).toEqual(["d open"]);
  vi.advanceTimersByTime(20);
  const probe = all.admitted("d");
  return { ...all, stragglers: [...known, ...unknown], probe };
}

/**
 * A half-open circuit with two calls under way. The second was admitted when the first had taken as long as a circuit
 * stays open.
 */
async function slowProbe() {
  const all = breakers();
  await all.fail("d", 5);
  vi.advanceTimersByTime(20);
  const first = all.admitted("d");
  vi.advanceTimersByTime(19);
  expect(all.made.admit("d").kind).toBe("open");
  vi.advanceTimersByTime(1);
  const second = all.admitted("d");
  expect(all.made.admit("d").kind).toBe("open");
  return { ...all, first, second };
}

/**
 * While the receiver hangs, each run is claimed when it is due, and comes back when the circuit says, up to a second
 * later. After `hangsFor` seconds the probe succeeds. Returns the claims in each second, and when each run was let
 * through, in seconds.
 */
async function backlog(options: { runs: number; seconds: number; hangsFor: number }) {
  const { made, admitted, fail } = breakers({ resetMs: 30_000 });
  await fail("d", 5);
  const began = Date.now();
  const back = Array.from({ length: options.runs }, () => began);
  const claims: number[] = [];
  const delivered: number[] = [];
  let probe: ReturnType<typeof admitted> | undefined;
  for (let second = 0; second < options.seconds; second += 1) {
    claims.push(0);
    for (let step = 0; step < 10; step += 1) {
      for (const [run, at] of back.entries()) {
        if (at > Date.now()) continue;
        claims[second] = (claims[second] ?? 0) + 1;
        const admission = made.admit("d");
        if (admission.kind === "open") {
          back[run] = admission.until + ((run * 7919) % 1_000);
          continue;
        }
        back[run] = Infinity;
        delivered.push((Date.now() - began) / 1_000);
        probe ??= admission.permit;
        if (admission.permit !== probe) admission.permit.settle("success");
      }
      vi.advanceTimersByTime(100);
      if (Date.now() - began === options.hangsFor * 1_000) probe?.settle("success");
      await settled();
    }
  }
  made.close();
  return { claims, delivered };
}

test("a destination that never fails has no breaker", async () => {
  const { made, admitted } = breakers();
  for (let n = 0; n < 100; n += 1) admitted("d").settle("success");
  expect(made.size).toBe(0);
});

test("opens after five failures, lets one probe through, and closes on its success", async () => {
  const { made, admitted, transitions, fail, metric } = breakers();
  const states = () =>
    Promise.all(["open", "half_open"].map((state) => metric(`circuits{state="${state}"}`)));
  await fail("d", 4);
  expect(made.admit("d").kind).toBe("admitted");
  vi.advanceTimersByTime(5);
  await fail("d", 1);
  expect(await states()).toEqual(["1", undefined]);
  expect([...made.notClosed]).toEqual(["d"]);
  expect(made.admit("d")).toMatchObject({ kind: "open", until: 1_000_025 });
  vi.advanceTimersByTime(10);
  expect(made.admit("d")).toMatchObject({ kind: "open", until: 1_000_027 });
  vi.advanceTimersByTime(10);
  const probe = admitted("d");
  expect(await states()).toEqual(["0", "1"]);
  expect(made.admit("d")).toMatchObject({ kind: "open", until: 1_002_025 });
  probe.settle("success");
  await settled();
  expect(await states()).toEqual(["0", "0"]);
  expect([...made.notClosed]).toEqual([]);
  expect(transitions).toEqual(["d open", "d half_open", "d closed"]);
  expect(await metric('circuit_transitions_total{state="half_open"}')).toBe("1");
  expect(await metric("circuit_rejections_total")).toBe("3");
  expect(made.admit("d").kind).toBe("admitted");
  made.close();
});

test("attempts that we ended ourselves open no circuit", async () => {
  const { made, admittedTimes, transitions, fail } = breakers();
  await fail("d", 1);
  for (const permit of admittedTimes("d", 10)) permit.settle("neutral");
  await settled();
  expect(transitions).toEqual([]);
  made.close();
});

test("a probe that failed opens it again", async () => {
  const { made, admitted, transitions, fail } = breakers();
  await fail("d", 5);
  vi.advanceTimersByTime(20);
  admitted("d").settle("failure");
  await settled();
  expect(transitions).toEqual(["d open", "d half_open", "d open"]);
  made.close();
});

test.each(["success", "failure"] as const)(
  "behind any number of probes that told nothing the next one decides: %s",
  async (result) => {
    const { made, admitted, transitions, fail } = breakers();
    await fail("d", 5);
    vi.advanceTimersByTime(20);
    for (let n = 0; n < 3; n += 1) {
      const probe = admitted("d");
      expect(made.admit("d").kind).toBe("open");
      probe.settle("neutral");
      await settled();
    }
    admitted("d").settle(result);
    await settled();
    const state = result === "success" ? "closed" : "open";
    expect(transitions).toEqual(["d open", "d half_open", `d ${state}`]);
    made.close();
  },
);

test.each([
  { of: "whose last probe told nothing", told: "neutral" },
  { of: "that its last probe has opened again", told: "failure" },
] as const)("a half-open circuit $of is forgotten ten minutes after that", async ({ told }) => {
  const { made, admitted, fail } = breakers({ resetMs: 30_000 });
  await fail("d", 5);
  vi.advanceTimersByTime(330_000);
  admitted("d").settle(told);
  await settled();
  vi.advanceTimersByTime(590_000);
  expect(made.size).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(made.size).toBe(0);
});

test("destinations do not share a breaker, and quiet closed ones are dropped", async () => {
  const { made, admitted, fail } = breakers({ resetMs: 60_000 });
  const late = admitted("late");
  await fail("bad", 5);
  await fail("once", 1);
  expect(made.admit("bad").kind).toBe("open");
  expect(made.admit("good").kind).toBe("admitted");
  expect(made.size).toBe(2);
  vi.advanceTimersByTime(20_000);
  admitted("once").settle("success");
  await settled();
  // No failures for a window of 30 s, which is checked every 10 s.
  vi.advanceTimersByTime(20_000);
  expect(made.size).toBe(1);
  expect(made.admit("bad").kind).toBe("open");
  made.close();
  late.settle("failure");
  expect(made.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

test("one that fails now and then keeps its breaker, which does not open", async () => {
  const { made, transitions, fail } = breakers();
  for (let n = 0; n < 10; n += 1) {
    await fail("d", 1);
    vi.advanceTimersByTime(25_000);
  }
  expect(made.size).toBe(1);
  expect(transitions).toEqual([]);
  made.close();
});

test.each([
  { whose: "everybody's", max: 2, maxPerAccount: 9 },
  { whose: "an account's", max: 9, maxPerAccount: 2 },
])("when $whose breakers are too many, the longest unused gives way", async (limits) => {
  const { made, admitted, transitions, fail } = breakers(limits);
  await fail("x a", 1);
  await fail("x b", 1);
  admitted("x a").settle("success");
  await fail("x c", 1);
  // With the one before, four failures of five calls.
  await fail("x a", 3);
  expect(transitions).toEqual(["x a open"]);
  made.close();
});

test("the number of breakers is bounded; open ones stay", async () => {
  const { made, fail } = breakers({ resetMs: 60_000, max: 3, maxPerAccount: 3 });
  await fail("bad", 5);
  for (const destination of ["a", "b", "c", "d"]) await fail(destination, 1);
  expect(made.size).toBe(3);
  expect(made.admit("bad").kind).toBe("open");
  made.close();
});

test("a half-open circuit that nobody calls any more is forgotten, and published as closed", async () => {
  const { made, transitions, fail, metric } = breakers({ resetMs: 30_000 });
  await fail("d", 5);
  vi.advanceTimersByTime(30_000);
  expect(await metric('circuits{state="half_open"}')).toBe("1");
  // It still exists for jobs that run every ten minutes, which then make one call instead of five.
  vi.advanceTimersByTime(570_000);
  expect(made.size).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(made.size).toBe(0);
  expect(transitions).toEqual(["d open", "d half_open", "d closed"]);
  expect(await metric('circuits{state="half_open"}')).toBe("0");
  expect(vi.getTimerCount()).toBe(0);
  expect(made.admit("d").kind).toBe("admitted");
});

test("a half-open circuit stays as long as its probe is under way", async () => {
  const { made, admitted, transitions, fail } = breakers();
  await fail("d", 5);
  vi.advanceTimersByTime(20);
  const probe = admitted("d");
  vi.advanceTimersByTime(1_200_000);
  expect(made.size).toBe(1);
  probe.settle("success");
  await settled();
  expect(transitions.at(-1)).toBe("d closed");
  made.close();
});

describe("a probe that takes longer than a circuit stays open", () => {
  test.each([
    { of: "the second", result: "success", state: "closed" },
    { of: "the second", result: "failure", state: "open" },
    { of: "the first", result: "success", state: "closed" },
    { of: "the first", result: "failure", state: "open" },
  ] as const)(
    "is not waited for: $result of $of, whichever ends first, decides",
    async (decides) => {
      const { made, transitions, first, second } = await slowProbe();
      const [one, other] = decides.of === "the second" ? [second, first] : [first, second];
      one.settle(decides.result);
      await settled();
      expect(transitions).toEqual(["d open", "d half_open", `d ${decides.state}`]);
      other.settle(decides.result === "success" ? "failure" : "success");
      await settled();
      expect(transitions).toHaveLength(3);
      made.close();
    },
  );

  test("keeps the circuit half-open when the next one learns nothing; a third may try after as long", async () => {
    const { made, admitted, transitions, second } = await slowProbe();
    second.settle("neutral");
    await settled();
    expect(made.admit("d").kind).toBe("open");
    vi.advanceTimersByTime(20);
    admitted("d").settle("success");
    await settled();
    expect(transitions).toEqual(["d open", "d half_open", "d closed"]);
    made.close();
  });

  test("and opens it again by the next one: it is tried as after any failure", async () => {
    const { made, admitted, transitions, second } = await slowProbe();
    second.settle("failure");
    await settled();
    vi.advanceTimersByTime(20);
    admitted("d").settle("success");
    await settled();
    expect(transitions).toEqual(["d open", "d half_open", "d open", "d half_open", "d closed"]);
    made.close();
  });
});

test("when there is no room, half-open circuits give way: the one that waits longest, after closed ones", async () => {
  const { made, admitted, transitions, fail } = breakers({ max: 4, maxPerAccount: 4 });
  await fail("probed", 5);
  vi.advanceTimersByTime(20);
  const probe = admitted("probed");
  for (const destination of ["first", "second"]) {
    await fail(destination, 5);
    vi.advanceTimersByTime(20);
  }
  await fail("closed", 1);
  await fail("new", 4);
  expect(transitions).not.toContain("closed closed");
  expect(transitions).not.toContain("first closed");
  await fail("new", 1);
  expect(transitions.at(-1)).toBe("new open");
  await fail("newer", 5);
  expect(transitions).toContain("first closed");
  expect(transitions).not.toContain("second closed");
  expect(transitions).not.toContain("probed closed");
  expect(transitions.at(-1)).toBe("newer open");
  expect(made.size).toBe(4);
  probe.settle("success");
  made.close();
});

test("one account cannot take the breakers of all", async () => {
  const { made, transitions, fail, metric } = breakers({
    resetMs: 60_000,
    max: 6,
    maxPerAccount: 3,
  });
  for (const host of [1, 2, 3, 4, 5, 6, 7]) await fail(`greedy https://${host}.example`, 5);
  expect(made.size).toBe(3);
  expect(await metric("circuits_refused_total")).toBe("20");
  await fail("other https://down.example", 5);
  expect(transitions.at(-1)).toBe("other https://down.example open");
  vi.advanceTimersByTime(60_000);
  // One of the account's own gives way, although it waits for a probe, and not another account's closed one.
  await fail("other https://once.example", 1);
  await fail("greedy https://8.example", 5);
  expect(transitions.slice(-2)).toEqual([
    "greedy https://1.example closed",
    "greedy https://8.example open",
  ]);
  expect(made.size).toBe(5);
  await fail("greedy https://9.example", 5);
  expect(made.size).toBe(5);
  made.close();
});

test("of all breakers one account gets a quarter", async () => {
  const { made, fail } = breakers({ max: 9 });
  for (const host of [1, 2, 3, 4]) await fail(`greedy https://${host}.example`, 1);
  expect(made.size).toBe(3);
  made.close();
});

test("an account whose circuits are all open keeps no other's from giving way", async () => {
  const { made, fail, metric } = breakers({ resetMs: 60_000, max: 9, maxPerAccount: 2 });
  for (const host of [1, 2, 3]) await fail(`greedy https://${host}.example`, 5);
  for (const host of [1, 2, 3]) await fail(`other https://${host}.example`, 1);
  expect(await metric("circuits_refused_total")).toBe("5");
  made.close();
});

describe("calls from before the circuit opened", () => {
  test.each(["success", "failure", "neutral"] as const)(
    "do not pass for the probe: %s",
    async (result) => {
      const { made, stragglers, probe, transitions } = await halfOpenWithStragglers();
      for (const straggler of stragglers) straggler.settle(result);
      await settled();
      expect(transitions).toEqual(["d open", "d half_open"]);
      expect(made.admit("d").kind).toBe("open");
      probe.settle("success");
      await settled();
      expect(transitions).toEqual(["d open", "d half_open", "d closed"]);
      made.close();
    },
  );

  test("do not open it again after the probe closed it", async () => {
    const { made, stragglers, probe, transitions } = await halfOpenWithStragglers();
    probe.settle("success");
    await settled();
    for (const straggler of stragglers) straggler.settle("failure");
    await settled();
    expect(transitions.at(-1)).toBe("d closed");
    made.close();
  });

  test("do not close it in place of a later probe", async () => {
    const { made, admitted, stragglers, probe, transitions } = await halfOpenWithStragglers();
    probe.settle("failure");
    await settled();
    vi.advanceTimersByTime(20);
    const second = admitted("d");
    for (const straggler of stragglers) straggler.settle("success");
    await settled();
    expect(transitions.at(-1)).toBe("d half_open");
    second.settle("failure");
    await settled();
    expect(transitions.at(-1)).toBe("d open");
    made.close();
  });
});

test("calls that outlive their breaker count for its successor", async () => {
  const { made, admittedTimes, transitions, fail } = breakers();
  await fail("d", 1);
  const slow = admittedTimes("d", 5);
  vi.advanceTimersByTime(60_000);
  expect(made.size).toBe(0);
  for (const permit of slow) {
    permit.settle("failure");
    await settled();
  }
  expect(transitions).toEqual(["d open"]);
  made.close();
});

test("calls that began before the first failure count also when they succeed", async () => {
  const { made, admittedTimes, transitions } = breakers();
  const herd = admittedTimes("d", 20);
  for (const [index, permit] of herd.entries()) {
    permit.settle(index % 4 === 0 ? "failure" : "success");
    await settled();
  }
  expect(transitions).toEqual([]);
  made.close();
});

describe("a backlog behind an open circuit", () => {
  test("costs at most 500 claims a second, however large, and the oldest are the first", async () => {
    const { claims, delivered } = await backlog({ runs: 10_000, seconds: 70, hangsFor: 60 });
    // Each run has to be claimed once to learn when to come back.
    expect(claims[0]).toBe(10_000);
    expect(Math.max(...claims.slice(1))).toBeLessThanOrEqual(600);
    // The probe is sent as soon as the circuit allows it.
    expect(delivered[0]).toBeLessThanOrEqual(31);
  });

  test("is delivered within three seconds when it is small", async () => {
    const { delivered } = await backlog({ runs: 500, seconds: 70, hangsFor: 60 });
    expect(delivered).toHaveLength(500);
    expect(delivered.at(-1)).toBeLessThanOrEqual(64);
  });

  test("has nobody wait longer than five minutes", async () => {
    const { made, fail } = breakers({ resetMs: 30_000 });
    await fail("d", 5);
    const returns = new Map<number, number>();
    for (let run = 0; run < 1_000_000; run += 1) {
      const admission = made.admit("d");
      if (admission.kind !== "open") throw new Error("admitted");
      const second = Math.floor((admission.until - Date.now()) / 1_000);
      returns.set(second, (returns.get(second) ?? 0) + 1);
    }
    const seconds = Array.from(returns.keys());
    expect(Math.min(...seconds)).toBe(30);
    expect(Math.max(...seconds)).toBe(330);
    // Seven times 150,000.
    expect(Math.max(...returns.values())).toBeLessThanOrEqual(3_507);
    made.close();
  });
});

/** A circuit that five failures of the first revision have opened, with one more of its calls under way. */
async function openByFirst() {
  const all = breakers();
  const of = (revision: string) => {
    const admission = all.made.admit("d", revision);
    return admission.kind === "admitted" ? admission.permit : undefined;
  };
  const fail = async (revision: string, times: number) => {
    for (let n = 0; n < times; n += 1) of(revision)?.settle("failure");
    await settled();
  };
  const straggler = of("first");
  await fail("first", 5);
  expect(of("first")).toBeUndefined();
  return { ...all, of, fail, straggler };
}

describe("of another revision of what a destination is reached by", () => {
  test("the circuit is another one, and what was published of the first is taken back", async () => {
    const { of, transitions, made, metric } = await openByFirst();
    expect(of("second")).toBeDefined();
    expect(transitions).toEqual(["d open", "d closed"]);
    expect(made).toMatchObject({ size: 0, notClosed: new Set() });
    expect(await metric('circuits{state="open"}')).toBe("0");
  });

  test("the circuit opens by failures of its own alone", async () => {
    const { of, fail, straggler, transitions } = await openByFirst();
    await fail("second", 4);
    straggler?.settle("failure");
    await settled();
    expect(of("second")).toBeDefined();
    await fail("second", 1);
    expect(of("second")).toBeUndefined();
    expect(transitions).toEqual(["d open", "d closed", "d open"]);
  });

  test("a circuit that has not opened is forgotten, too", async () => {
    const { made, transitions } = breakers();
    for (const revision of ["first", "first", "first", "first", "second"]) {
      const admission = made.admit("d", revision);
      if (admission.kind === "admitted") admission.permit.settle("failure");
      await settled();
    }
    expect(transitions).toEqual([]);
    expect(made.size).toBe(1);
  });

  test("a call that outlives its breaker counts for the next one of its own", async () => {
    const { made, transitions } = breakers();
    const call = () => {
      const admission = made.admit("d", "first");
      if (admission.kind !== "admitted") throw new Error("not admitted");
      return admission.permit;
    };
    call().settle("failure");
    await settled();
    const outliving = call();
    vi.advanceTimersByTime(60_000);
    expect(made.size).toBe(0);
    for (const permit of [outliving, call(), call(), call(), call()]) {
      permit.settle("failure");
      await settled();
    }
    expect(transitions).toEqual(["d open"]);
  });
});
