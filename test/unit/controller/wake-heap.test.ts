import * as fc from "fast-check";
import { expect, test } from "vitest";
import { WakeHeap } from "../../../src/controller/wake-heap.ts";

// So many that an entry that fills a gap may have to move up.
const key = fc.integer({ min: 0, max: 60 }).map(String);
const moment = fc.integer({ min: 0, max: 1_000 });
const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant("set" as const), key, at: moment }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("pop" as const), now: moment }) },
);

test("whatever is set, moved and removed, the earliest is known and comes first", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 100, maxLength: 200 }), (steps) => {
      const heap = new WakeHeap();
      const plain = new Map<string, number>();
      const earliest = () => (plain.size === 0 ? null : Math.min(...plain.values()));
      const pop = (now: number) => {
        const next = earliest();
        const popped = heap.popDue(now);
        expect(popped === undefined ? null : plain.get(popped)).toBe(
          next === null || next > now ? null : next,
        );
        if (popped !== undefined) plain.delete(popped);
      };
      for (const each of steps) {
        if (each.do === "pop") pop(each.now);
        else if (each.do === "delete") {
          heap.delete(each.key);
          plain.delete(each.key);
        } else {
          heap.set(each.key, each.at);
          plain.set(each.key, each.at);
        }
        expect(heap.next()).toBe(earliest());
        expect(heap.size).toBe(plain.size);
      }
      while (plain.size > 0) pop(Infinity);
      expect(heap.size).toBe(0);
    }),
    { numRuns: 300 },
  );
});

test("a heap that was cleared is as good as a new one", () => {
  const heap = new WakeHeap();
  heap.set("a", 1);
  heap.set("b", 2);
  heap.clear();
  expect([heap.size, heap.next()]).toEqual([0, null]);
  heap.set("b", 3);
  expect([heap.popDue(2), heap.popDue(3), heap.next()]).toEqual([undefined, "b", null]);
});
