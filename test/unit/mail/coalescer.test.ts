import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createCoalescer } from "../../../src/mail/coalescer.ts";

/** Each load answers with its number, counted by key; `fail` makes the next one reject. */
function counted() {
  const loads = new Map<string, number>();
  const over: (() => void)[] = [];
  const state = { fail: false };
  const load = createCoalescer(
    async (key) => {
      const nth = (loads.get(key) ?? 0) + 1;
      loads.set(key, nth);
      await setImmediate();
      if (!state.fail) return nth;
      state.fail = false;
      throw new Error("away");
    },
    {
      after: (_ms, callback) => {
        over.push(callback);
        return { cancel: () => undefined };
      },
    },
  );
  return { load, loads, state, pass: () => over.splice(0).forEach((callback) => callback()) };
}

test("whoever comes while a load runs, or just after, shares the next one", async () => {
  const { load, loads, pass } = counted();
  const first = load("a");
  const during = load("a");
  expect(await first).toBe(1);
  const after = load("a");
  await setImmediate();
  expect(loads.get("a")).toBe(1);
  pass();
  expect(await Promise.all([during, after])).toEqual([2, 2]);
});

test("another key waits for nobody", async () => {
  const { load } = counted();
  expect(await Promise.all([load("a"), load("b")])).toEqual([1, 1]);
});

test("a load that fails fails for its callers alone", async () => {
  const { load, state, pass } = counted();
  state.fail = true;
  const first = load("a");
  const next = load("a");
  await expect(first).rejects.toThrow("away");
  pass();
  expect(await next).toBe(2);
});

test("after a quiet time the next load begins at once", async () => {
  const { load, pass } = counted();
  await load("a");
  pass();
  await setImmediate();
  expect(await load("a")).toBe(2);
});
