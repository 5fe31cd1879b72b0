import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { Bell } from "../../../src/waiting/bell.ts";
import { FakeTime } from "../controller/controller-world.ts";

/** A bell, and the moments at which the waits that were begun ended. */
function world() {
  const time = new FakeTime(0);
  const bell = new Bell({ timers: time });
  const woken: number[] = [];
  const wait = (ms: number, signal?: AbortSignal): void => {
    void bell.wait(ms, signal).then(() => woken.push(time.now()));
  };
  return { time, bell, woken, wait };
}

test("a ring wakes who waits, once", async () => {
  const { time, bell, woken, wait } = world();
  wait(1_000);
  await time.advanceTo(100);
  bell.ring();
  await time.advanceTo(200);
  wait(1_000);
  await time.advanceTo(5_000);
  expect(woken).toEqual([100, 1_200]);
});

test("rings while nobody waits end the next wait, and no other", async () => {
  const { time, bell, woken, wait } = world();
  bell.ring();
  bell.ring();
  wait(1_000);
  await time.advanceTo(500);
  wait(1_000);
  await time.advanceTo(5_000);
  expect(woken).toEqual([0, 1_500]);
});

test("a wait ends with its signal, also with one that has aborted before", async () => {
  const { time, woken, wait } = world();
  const leaving = new AbortController();
  wait(1_000, leaving.signal);
  await time.advanceTo(100);
  leaving.abort();
  await time.advanceTo(200);
  wait(1_000, leaving.signal);
  await time.advanceTo(300);
  expect(woken).toEqual([100, 200]);
});

test("a wait that is over leaves neither a timer nor a listener behind", async () => {
  const { time, bell, woken, wait } = world();
  const { signal } = new AbortController();
  for (let n = 0; n < 3; n += 1) {
    wait(1_000, signal);
    bell.ring();
    await time.advanceTo(time.now());
  }
  expect(woken).toHaveLength(3);
  expect(time.timers).toBe(0);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});
