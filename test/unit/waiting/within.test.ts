import { expect, test } from "vitest";
import type { Timers } from "../../../src/domain/ports/clock.ts";
import { within, withTimeout } from "../../../src/waiting/within.ts";

function world() {
  let ring: (() => void) | undefined;
  const timers: Timers = {
    after: (_ms, callback) => {
      ring = callback;
      return { cancel: () => (ring = undefined) };
    },
  };
  return { timers, late: () => ring?.(), waits: () => ring !== undefined };
}

test("what is done is not waited for any longer", async () => {
  const { timers, waits } = world();
  await within(10, Promise.resolve(), timers);
  expect(waits()).toBe(false);
});

test("what takes too long is left alone", async () => {
  const { timers, late, waits } = world();
  const waiting = within(10, new Promise(() => undefined), timers);
  late();
  await waiting;
  expect(waits()).toBe(false);
});

test("what fails leaves no timer behind", async () => {
  const { timers, waits } = world();
  await expect(within(10, Promise.reject(new Error("failed")), timers)).rejects.toThrow("failed");
  expect(waits()).toBe(false);
});

/** Work that does nothing but hear of its end. */
function untilGivenUp(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });
}

test("work with a time limit hears when it is over, or its caller leaves, and leaves no timer behind", async () => {
  const { timers, late, waits } = world();
  const limit = { ms: 10, timers, reason: new Error("no answer in time") };
  for (const signal of [undefined, new AbortController().signal]) {
    const waiting = withTimeout({ ...limit, signal }, untilGivenUp);
    late();
    await expect(waiting).rejects.toThrow("no answer in time");
    expect(waits()).toBe(false);
  }
  const leaving = new AbortController();
  const waiting = withTimeout({ ...limit, signal: leaving.signal }, untilGivenUp);
  leaving.abort(new Error("the caller left"));
  await expect(waiting).rejects.toThrow("the caller left");
  expect(waits()).toBe(false);
  await expect(withTimeout(limit, async () => 7)).resolves.toBe(7);
  expect(waits()).toBe(false);
});
