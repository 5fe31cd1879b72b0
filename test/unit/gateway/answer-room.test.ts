import { expect, test } from "vitest";
import { createAnswerRoom } from "../../../src/gateway/answer-room.ts";

const KB = 1_000;

test("an account has no more than it leaves free, others each a part of the rest", () => {
  const room = createAnswerRoom({ bytes: 410 * KB });
  const taken = (account: string) => {
    let count = 0;
    while (room.take({ account, bytes: 10 * KB })) count += 1;
    return count;
  };
  expect(taken("a")).toBe(20);
  expect(taken("b")).toBe(10);
  expect(taken("c")).toBe(5);
});

test("what has been read makes room again", () => {
  const room = createAnswerRoom({ bytes: 100 * KB });
  const take = () => room.take({ account: "a", bytes: 40 * KB });
  const first = take();
  expect(take()).toBeUndefined();
  first?.();
  expect(take()).toBeDefined();
});

test("the first answer of an account may have any size, and small ones always have room", () => {
  const room = createAnswerRoom({ bytes: 100 * KB });
  for (const account of ["a", "b"]) expect(room.take({ account, bytes: 1_000 * KB })).toBeDefined();
  expect(room.take({ account: "a", bytes: 8 * KB })).toBeDefined();
  expect(room.take({ account: "a", bytes: 9 * KB })).toBeUndefined();
});
