import { expect, test } from "vitest";
import type { Timers } from "../../../src/domain/ports/clock.ts";
import { within } from "../../../src/waiting/within.ts";

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
