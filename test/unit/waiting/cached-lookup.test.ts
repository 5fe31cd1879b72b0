import { expect, test } from "vitest";
import { createCachedLookup } from "../../../src/waiting/cached-lookup.ts";

function answers(ask: (key: string) => Promise<string>) {
  let now = 1;
  const asked: string[] = [];
  const answer = createCachedLookup({
    ask: (key) => {
      asked.push(key);
      return ask(key);
    },
    ttlMs: 100,
    max: 2,
    monotonic: () => now,
  });
  return { answer, asked, passes: (ms: number) => (now += ms) };
}

test("those who want to know while it is asked, or soon after, share one answer", async () => {
  const { answer, asked, passes } = answers(async (key) => key.toUpperCase());
  expect(await Promise.all(["a", "b", "a"].map(answer))).toEqual(["A", "B", "A"]);
  passes(100);
  expect(await answer("a")).toBe("A");
  expect(asked).toEqual(["a", "b"]);
});

test("after that it is asked again", async () => {
  const { answer, asked, passes } = answers(async (key) => key);
  await answer("a");
  passes(101);
  await answer("a");
  expect(asked).toEqual(["a", "a"]);
});

test("a failure is told to all who wait for it, and not kept", async () => {
  let away = true;
  const { answer, asked } = answers(async (key) => {
    if (away) throw new Error("away");
    return key;
  });
  const both = await Promise.allSettled([answer("a"), answer("a")]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  away = false;
  expect(await answer("a")).toBe("a");
  expect(asked).toEqual(["a", "a"]);
});

test("of many keys those used last are kept", async () => {
  const { answer, asked } = answers(async (key) => key);
  for (const key of ["a", "b", "a", "c", "a", "b"]) await answer(key);
  expect(asked).toEqual(["a", "b", "c", "b"]);
});
