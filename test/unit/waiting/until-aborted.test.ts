import { getEventListeners } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { aborted, untilAborted } from "../../../src/waiting/until-aborted.ts";

const never = new Promise<never>(() => undefined);

test("work that ends is as if nobody had watched, and leaves no listener behind", async () => {
  const { signal } = new AbortController();
  await expect(untilAborted(Promise.resolve(7), signal)).resolves.toBe(7);
  await expect(untilAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("work that does not end is left with the signal's reason, also when that has aborted before", async () => {
  const leaving = new AbortController();
  const reason = new Error("the caller left");
  const waiting = untilAborted(never, leaving.signal);
  leaving.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  await expect(untilAborted(never, leaving.signal)).rejects.toBe(reason);
  await aborted(leaving.signal);
});

test("what fails after it was left is nobody's unhandled rejection", async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  const signal = AbortSignal.abort("gone");
  await expect(untilAborted(promise, signal)).rejects.toMatchObject({ cause: "gone" });
  reject(new Error("too late"));
  // An unhandled rejection would fail the test.
  await turn();
});
