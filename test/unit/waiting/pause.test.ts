import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { pause } from "../../../src/waiting/pause.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";

test("a pause ends after its time, or with its signal, and leaves neither a timer nor a listener behind", async () => {
  const time = new FakeTime(0);
  const leaving = new AbortController();
  const ended: number[] = [];
  const begin = (): void => {
    void pause(1_000, time, leaving.signal).then(() => ended.push(time.now()));
  };
  const left = () => [time.timers, getEventListeners(leaving.signal, "abort").length];
  begin();
  await time.advanceTo(999);
  expect(ended).toEqual([]);
  await time.advanceTo(1_000);
  expect([ended, left()]).toEqual([[1_000], [0, 0]]);
  begin();
  await time.advanceTo(1_300);
  leaving.abort();
  await settle();
  expect([ended, left()]).toEqual([
    [1_000, 1_300],
    [0, 0],
  ]);
  // Not at all when the signal has aborted before.
  begin();
  await settle();
  expect([ended, left()]).toEqual([
    [1_000, 1_300, 1_300],
    [0, 0],
  ]);
});
