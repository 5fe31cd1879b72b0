import { expect, test } from "vitest";
import { createSharedValues } from "../../../src/domain/shared-values.ts";

test("a key's value is made once, and is another key's never", () => {
  const shared = createSharedValues<{ made: string }>(10);
  const first = shared("a", () => ({ made: "first" }));
  expect(shared("a", () => ({ made: "again" }))).toBe(first);
  expect(shared("b", () => ({ made: "other" }))).toEqual({ made: "other" });
});

test("only so many values are kept, those that were used last", () => {
  const shared = createSharedValues<{ made: number }>(2);
  let made = 0;
  const get = (key: string) => shared(key, () => ({ made: (made += 1) })).made;
  expect(["a", "b", "a", "c", "a", "b"].map(get)).toEqual([1, 2, 1, 3, 1, 4]);
});

test("what has a long key is not kept", () => {
  const shared = createSharedValues<{ made: string }>(10);
  const first = shared("a".repeat(513), () => ({ made: "first" }));
  expect(shared("a".repeat(513), () => ({ made: "again" }))).not.toBe(first);
});
