import { expect, test } from "vitest";
import { inBatches } from "../../../src/postgres/batches.ts";

test("batches end where nothing is left, and say how much went", async () => {
  const asked: number[] = [];
  const left = [3, 2, 0, 1];
  const removed = await inBatches({ size: 3 }, async (limit) => {
    asked.push(limit);
    return left.shift() ?? 0;
  });
  expect(removed).toBe(5);
  expect(asked).toEqual([3, 3, 3]);
});

test("whoever ends does not wait for the rest", async () => {
  const end = new AbortController();
  const removed = await inBatches({ signal: end.signal }, async () => {
    if (end.signal.aborted) throw new Error("one batch more");
    end.abort();
    return 7;
  });
  expect(removed).toBe(7);
});
