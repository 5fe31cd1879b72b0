import { expect, test } from "vitest";
import { WorkQueue } from "../../../src/controller/work-queue.ts";

const queue = () => new WorkQueue({ random: () => 1 });

test("each key once, first come first served", () => {
  const keys = queue();
  for (const key of ["b", "a", "b", "c"]) keys.add(key);
  expect(keys.take(2)).toEqual(["b", "a"]);
  keys.add("b");
  expect(keys.take(9)).toEqual(["c", "b"]);
});

test("what keeps failing comes back after 1, 2, 4 s and so on, at most a minute", () => {
  const keys = queue();
  const waits = Array.from({ length: 8 }, () => {
    keys.retry("a", 0);
    return (keys.nextRetry() ?? 0) / 1_000;
  });
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  keys.succeeded("a");
  keys.retry("a", 0);
  expect(keys.nextRetry()).toBe(1_000);
  keys.promote(999);
  expect(keys.take(9)).toEqual([]);
  keys.promote(1_000);
  expect(keys.take(9)).toEqual(["a"]);
});

test("what happens to a key that waits brings it back at once, and once", () => {
  const keys = queue();
  keys.retry("a", 0);
  keys.add("a");
  expect(keys.depth).toBe(1);
  expect(keys.take(9)).toEqual(["a"]);
  keys.promote(Infinity);
  expect(keys.take(9)).toEqual([]);
});

test("a key that fails although it was added again waits all the same", () => {
  const keys = queue();
  keys.add("a");
  keys.retry("a", 0);
  expect(keys.take(9)).toEqual([]);
  keys.forget("a");
  expect([keys.depth, keys.nextRetry()]).toEqual([0, null]);
  keys.retry("a", 0);
  expect(keys.nextRetry()).toBe(1_000);
});

test("a key that is put aside waits until it is taken back, whatever happens to it", () => {
  const keys = queue();
  for (const key of ["a", "b"]) keys.add(key);
  keys.retry("c", 0);
  keys.putAside(["a", "c"]);
  keys.add("a");
  keys.promote(Infinity);
  expect(keys.take(9)).toEqual(["b"]);
  expect(keys.depth).toBe(2);
  keys.takeBack("a");
  keys.takeBack("b");
  expect(keys.take(9)).toEqual(["a"]);
  keys.forget("c");
  keys.add("c");
  expect(keys.take(9)).toEqual(["c"]);
});

test("those that are due come first, and leave half of each batch to the others", () => {
  const keys = queue();
  for (const key of ["a", "b", "c", "d"]) keys.add(key);
  for (const key of ["d", "1", "2", "3"]) keys.addDue(key);
  // It is due already.
  keys.add("1");
  expect([keys.depth, keys.due]).toEqual([7, 4]);
  expect(keys.take(3)).toEqual(["d", "1", "a"]);
  expect(keys.take(6)).toEqual(["2", "3", "b", "c"]);
  for (const key of ["1", "2", "3"]) keys.addDue(key);
  keys.putAside(["2"]);
  keys.addDue("2");
  keys.forget("3");
  expect(keys.take(9)).toEqual(["1"]);
});

test("when a term of leadership ends, nothing is left for the next", () => {
  const keys = queue();
  keys.add("ready");
  keys.addDue("due");
  keys.retry("failed", 0);
  keys.putAside(["aside"]);
  keys.clear();
  expect([keys.depth, keys.nextRetry()]).toEqual([0, null]);
  keys.add("aside");
  expect(keys.take(9)).toEqual(["aside"]);
  keys.retry("failed", 0);
  expect(keys.nextRetry()).toBe(1_000);
});
