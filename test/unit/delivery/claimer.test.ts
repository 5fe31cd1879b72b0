import { expect, onTestFinished, test } from "vitest";
import { CLAIM_TIMING, createClaimer } from "../../../src/delivery/claimer.ts";
import { deliveryLimits } from "../../../src/delivery/delivery-limits.ts";
import { createHeldRuns } from "../../../src/delivery/held-runs.ts";
import type { RunQueue } from "../../../src/domain/ports/run-queue.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";

const EPOCH = 1_000_000;

/** A claimer at work, of a worker with one slot for a destination. */
function world(claim: RunQueue["claim"]) {
  const time = new FakeTime(EPOCH);
  const limits = deliveryLimits({ concurrency: 8, perDestination: 1 });
  const held = createHeldRuns(limits);
  const claims: Parameters<RunQueue["claim"]>[0][] = [];
  const unclaimed: (readonly string[])[] = [];
  const claimer = createClaimer({
    queue: {
      claim: async (request) => {
        claims.push(request);
        return claim(request);
      },
      unclaim: async (tokens) => {
        unclaimed.push(tokens);
      },
    },
    clock: time,
    random: () => 1,
    timers: time,
    monotonic: () => time.now(),
    workerId: "worker",
    held,
    leases: { add: () => undefined },
    breakers: { notClosed: new Set() },
    limits,
    timing: CLAIM_TIMING,
    congested: () => false,
    lastOutage: () => -Infinity,
    onClaimed: () => undefined,
    onOutage: () => undefined,
  });
  const stopping = new AbortController();
  const running = claimer.run(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
  };
  onTestFinished(stop);
  return { time, held, claimer, claims, unclaimed, stop };
}

test("who was full is claimed for as soon as there is room again, and not at the next poll", async () => {
  const runs = [1, 2].map(() => claimedRun({}, { started: true }));
  const [first] = runs;
  const { time, held, claimer, claims } = world(async ({ exceptDestinations }) =>
    exceptDestinations?.length ? [] : runs.splice(0, 1),
  );
  await time.advanceTo(EPOCH + 1_000);
  expect(claims.at(-1)?.exceptDestinations).toEqual([first?.destination]);
  expect(held.inFlight).toBe(1);
  // No time passes from here on.
  if (first && held.finished(first)) claimer.recovered();
  await settle();
  expect(held.inFlight).toBe(1);
  expect(runs).toEqual([]);
});

test("new runs are claimed as soon as they are heard of", async () => {
  const { claimer, claims } = world(async () => []);
  await settle();
  expect(claims).toHaveLength(1);
  claimer.news(null);
  await settle();
  expect(claims).toHaveLength(2);
});

test("what a claim without an answer may have taken is given back before the next one, and at the end once more", async () => {
  let away = true;
  const { time, claimer, claims, unclaimed, stop } = world(async () => {
    if (away) throw new Error("no answer");
    return [];
  });
  await settle();
  away = false;
  await time.advanceTo(EPOCH + CLAIM_TIMING.afterError);
  expect(claims).toHaveLength(2);
  const [lost] = claims;
  expect(unclaimed).toEqual([[lost?.token]]);
  await stop();
  await claimer.giveBackUnanswered();
  expect(unclaimed).toEqual([[lost?.token], [lost?.token]]);
});
