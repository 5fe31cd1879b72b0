import { expect, test } from "vitest";
import type { AttemptOutcome } from "../../../src/delivery/attempt.ts";
import type { Verdict } from "../../../src/delivery/breaker.ts";
import { createAttemptRunner } from "../../../src/delivery/attempt-runner.ts";
import type { Claim, Closing } from "../../../src/domain/ports/run-queue.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { settle } from "../controller/controller-world.ts";
import { claimedRun } from "../../integration/delivery/claimed-run.ts";

const NOW = 1_000_000;

type Options = Parameters<typeof createAttemptRunner>[0];

/** Launches one run, `job-1`, and collects what becomes of it. */
function launching(
  change: {
    attempt?: (input: Parameters<Options["attempt"]>[0]) => Promise<AttemptOutcome>;
    holds?: (claim: Claim) => boolean;
    run?: Partial<ClaimedRun>;
  } = {},
) {
  const run = claimedRun({}, { scheduledAt: NOW - 250, createdAt: NOW - 250, ...change.run });
  const verdicts: Verdict[] = [];
  const released: (number | undefined)[] = [];
  const closed: Closing[] = [];
  const [forgotten, freed]: [Claim[], ClaimedRun[]] = [[], []];
  const metrics = createMetrics({ version: "test", nodeMetrics: false });
  let time = 0;
  const runner = createAttemptRunner({
    clock: { now: () => NOW, known: true },
    random: () => 0,
    monotonic: () => (time += 500),
    metrics,
    log: createLogger({ level: "silent" }),
    leases: {
      holds: change.holds ?? (() => true),
      remove: (claim) => forgotten.push(claim),
    },
    recorder: {
      close: (closing) => closed.push(closing),
      release: (_run, notBefore) => released.push(notBefore),
    },
    attempt: change.attempt ?? (async () => ({ kind: "delivered", httpStatus: 200 })),
    onFinished: (of) => freed.push(of),
  });
  return {
    run,
    runner,
    ready: {
      run,
      permit: { settle: (verdict: Verdict) => verdicts.push(verdict) },
      signingSecrets: ["secret"],
    },
    metric: async (name: string) => {
      const { text } = await metrics.render();
      return text.split("\n").filter((line) => line.startsWith(`carillon_${name}`));
    },
    verdicts,
    released,
    closed,
    forgotten,
    /** Whether its slot is free. */
    free: () => freed.length === 1,
  };
}

/** An attempt that hangs until its signal. */
const hanging: Options["attempt"] = ({ cancellation: { signal } }) =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      resolve({ kind: "retryable", httpStatus: 503, error: "busy", retryAfterMs: null });
    });
  });

test("an attempt that was made is recorded and measured, and its slot is free", async () => {
  const { runner, ready, closed, verdicts, released, free, metric } = launching();
  runner.launch(ready);
  await runner.idle();
  expect(closed).toMatchObject([{ next: "finished", execution: { durationMs: 500 } }]);
  expect(verdicts).toEqual(["success"]);
  expect(released).toEqual([]);
  expect(free()).toBe(true);
  expect(runner.ids()).toEqual([]);
  expect(await metric("runs_in_flight")).toEqual(["carillon_runs_in_flight 0"]);
  expect(await metric("runs_total")).toEqual([
    'carillon_runs_total{type="webhook",outcome="delivered"} 1',
  ]);
  expect(await metric("run_lateness_seconds_sum")).toEqual([
    'carillon_run_lateness_seconds_sum{type="webhook"} 0.25',
  ]);
  expect(await metric("run_delivery_duration_seconds_sum")).toEqual([
    'carillon_run_delivery_duration_seconds_sum{type="webhook"} 0.5',
  ]);
});

test("lateness is of the first attempt", async () => {
  const { runner, ready, metric } = launching({ run: { attempt: 2 } });
  runner.launch(ready);
  await runner.idle();
  expect(await metric("run_lateness_seconds_sum")).toEqual([]);
});

test("lateness is not of what an open circuit has put off, which says nothing about the workers", async () => {
  const { runner, ready, metric } = launching({ run: { notBefore: NOW - 100 } });
  runner.launch(ready);
  await runner.idle();
  expect(await metric("run_lateness_seconds_sum")).toEqual([]);
});

test("an attempt that breaks off without a word gives its leave and its slot back, and lets its lease run out", async () => {
  const { runner, ready, run, verdicts, forgotten, free } = launching({
    attempt: () => Promise.reject(new Error("ours")),
  });
  runner.launch(ready);
  await runner.idle();
  expect(verdicts).toEqual(["neutral"]);
  expect(forgotten).toEqual([run]);
  expect(free()).toBe(true);
});

test("an attempt is ended for the first reason, and says nothing of its destination", async () => {
  const { runner, ready, run, closed, verdicts, metric } = launching({ attempt: hanging });
  runner.launch(ready);
  expect(await metric("runs_in_flight")).toEqual(["carillon_runs_in_flight 1"]);
  expect(runner.ids()).toEqual([run.id]);
  expect(runner.abort("another", "deleted")).toBe(false);
  expect(runner.abort(run.id, "replaced")).toBe(true);
  runner.abortAll("interrupted");
  await runner.idle();
  expect(closed).toMatchObject([{ execution: { errorMessage: "replaced: outcome unknown" } }]);
  expect(verdicts).toEqual(["neutral"]);
});

test("a claim that was lost meanwhile is forgotten, and nothing recorded", async () => {
  const { runner, ready, run, closed, released, forgotten, free } = launching({
    attempt: hanging,
  });
  runner.launch(ready);
  runner.abort(run.id, "lost");
  await runner.idle();
  expect(forgotten).toEqual([run]);
  expect([closed, released]).toEqual([[], []]);
  expect(free()).toBe(true);
});

test("an attempt may send as long as its claim holds", async () => {
  let holds = true;
  const { runner, ready, released } = launching({
    holds: () => holds,
    attempt: async ({ maySend }) => {
      expect(maySend()).toBe(true);
      holds = false;
      expect(maySend()).toBe(false);
      return { kind: "not_sent" };
    },
  });
  runner.launch(ready);
  await runner.idle();
  expect(released).toEqual([NOW + 1_000]);
});

test("of a run that was lost and won back unnoticed, the lost attempt ends and the new one is known", async () => {
  const { runner, ready, run, closed, forgotten } = launching({ attempt: hanging });
  const again = { ...run, claimToken: "again", attempt: 2 };
  runner.launch(ready);
  runner.launch({ ...ready, run: again });
  await settle();
  expect(forgotten).toEqual([run]);
  expect(runner.ids()).toEqual([run.id]);
  expect(runner.abort(run.id, "interrupted")).toBe(true);
  await runner.idle();
  expect(closed).toMatchObject([{ run: again }]);
});
