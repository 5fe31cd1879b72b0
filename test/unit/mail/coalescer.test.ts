import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createCoalescer } from "../../../src/mail/coalescer.ts";
import { pause } from "../../../src/waiting/pause.ts";
import { FakeTime } from "../controller/controller-world.ts";

/** Each load takes `tookMs` and answers with its number, counted by key. `fail` makes the next one reject. */
function counted(tookMs = 0) {
  const loads = new Map<string, number>();
  const time = new FakeTime(0);
  const state = { fail: false };
  const load = createCoalescer(
    async (key) => {
      const nth = (loads.get(key) ?? 0) + 1;
      loads.set(key, nth);
      await (tookMs > 0 ? pause(tookMs, time) : setImmediate());
      if (!state.fail) return nth;
      state.fail = false;
      throw new Error("away");
    },
    { timers: time, monotonic: () => time.now() },
  );
  return { load, loads, state, time };
}

test("whoever comes while a load runs shares the next one, which begins milliseconds after", async () => {
  const { load, loads, time } = counted(2);
  const first = load("a");
  const during = load("a");
  await time.advanceTo(2);
  expect(await first).toBe(1);
  const after = load("a");
  await time.advanceTo(4);
  expect(loads.get("a")).toBe(1);
  await time.advanceTo(5);
  expect(loads.get("a")).toBe(2);
  await time.advanceTo(7);
  expect(await Promise.all([during, after])).toEqual([2, 2]);
});

test("never are two loads of one key under way, whoever comes in whichever turn", async () => {
  let underWay = 0;
  let most = 0;
  const load = createCoalescer(
    async () => {
      most = Math.max(most, (underWay += 1));
      await setImmediate();
      underWay -= 1;
    },
    { timers: new FakeTime(0), monotonic: () => 0 },
  );
  const calls = [load("a"), load("a")];
  await calls[0];
  for (let turn = 0; turn < 10; turn += 1) {
    calls.push(load("a"));
    await Promise.resolve();
  }
  await Promise.all(calls);
  expect(most).toBe(1);
});

test("another key waits for nobody", async () => {
  const { load } = counted();
  expect(await Promise.all([load("a"), load("b")])).toEqual([1, 1]);
});

test("a load that fails fails for its callers alone", async () => {
  const { load, state, time } = counted();
  state.fail = true;
  const first = load("a");
  const next = load("a");
  await expect(first).rejects.toThrow("away");
  await time.advanceTo(5);
  expect(await next).toBe(2);
});

test("whoever comes when no load runs waits for nothing", async () => {
  const { load } = counted();
  expect(await load("a")).toBe(1);
  await setImmediate();
  expect(await load("a")).toBe(2);
});
