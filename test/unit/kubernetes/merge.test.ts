import { expect, test } from "vitest";
import { merge } from "../../../src/kubernetes/merge.ts";
import { collectGarbage } from "../../collect-garbage.ts";

/** A source that yields what the test says, and counts how often it was asked. */
function source() {
  const gates: PromiseWithResolvers<string | null>[] = [];
  const gate = (n: number) => (gates[n] ??= Promise.withResolvers<string | null>());
  let asked = 0;
  async function* values(): AsyncGenerator<string> {
    for (;;) {
      asked += 1;
      const value = await gate(asked - 1).promise;
      if (value === null) return;
      yield value;
    }
  }
  return { values: values(), gate, asked: () => asked };
}

test("gives values as they come, with the index of their source, until all have ended", async () => {
  const [a, b] = [source(), source()];
  const merged = merge([a.values, b.values]);
  b.gate(0).resolve("b0");
  expect((await merged.next()).value).toEqual({ index: 1, value: "b0" });
  a.gate(0).resolve("a0");
  expect((await merged.next()).value).toEqual({ index: 0, value: "a0" });
  a.gate(1).resolve(null);
  b.gate(1).resolve("b1");
  expect((await merged.next()).value).toEqual({ index: 1, value: "b1" });
  b.gate(2).resolve(null);
  expect(await merged.next()).toEqual({ done: true, value: undefined });
});

test("asks a source for more only when what it gave has been read", async () => {
  const a = source();
  const merged = merge([a.values]);
  a.gate(0).resolve("a0");
  await merged.next();
  expect(a.asked()).toBe(1);
  const next = merged.next();
  expect(a.asked()).toBe(2);
  a.gate(1).resolve(null);
  await next;
});

test("the first error is thrown, and a later one of another source is nobody's", async () => {
  const [a, b] = [source(), source()];
  const merged = merge([a.values, b.values]);
  a.gate(0).reject(new Error("first"));
  await expect(merged.next()).rejects.toThrow("first");
  // If this were unhandled, the test run would fail.
  b.gate(0).reject(new Error("later"));
  await new Promise(setImmediate);
  expect(await merged.next()).toEqual({ done: true, value: undefined });
});

test("what was handed out is not kept while another source is quiet", async () => {
  const values = 64;
  const size = 1_000_000;
  async function* busy(): AsyncGenerator<string> {
    for (let n = 0; n < values; n += 1) yield Buffer.alloc(size, "a").toString();
  }
  const quiet = source();
  const merged = merge([quiet.values, busy()]);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < values; n += 1) await merged.next();
  collectGarbage();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan((values * size) / 8);
  quiet.gate(0).resolve(null);
  expect((await merged.next()).done).toBe(true);
});
