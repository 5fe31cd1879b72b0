import { expect, test } from "vitest";
import { LightAbort } from "../../../src/waiting/light-abort.ts";

const reason = new Error("deleted");

/** Counts how often it is told. */
function listener() {
  return {
    told: 0,
    handleEvent() {
      this.told += 1;
    },
  };
}

test("all that listen are told once, when it has aborted", () => {
  const abort = new LightAbort();
  const seen: unknown[] = [];
  const looking = { handleEvent: () => seen.push(abort.aborted, abort.reason) };
  const [stays, leaves] = [listener(), listener()];
  abort.addEventListener("abort", stays);
  abort.addEventListener("abort", leaves);
  abort.addEventListener("abort", looking);
  abort.removeEventListener("abort", leaves);
  abort.removeEventListener("abort", listener());
  expect(abort.aborted).toBe(false);

  abort.abort(reason);
  abort.abort(new Error("lost"));
  expect(seen).toEqual([true, reason]);
  expect([stays.told, leaves.told]).toEqual([1, 0]);
  expect(abort.reason).toBe(reason);
});

test("one that leaves when it is told takes nobody else's turn", () => {
  const abort = new LightAbort();
  const leaving = { handleEvent: () => abort.removeEventListener("abort", leaving) };
  const stays = listener();
  abort.addEventListener("abort", leaving);
  abort.addEventListener("abort", stays);
  abort.abort(reason);
  expect(stays.told).toBe(1);
});

test.each(["before", "after"])("its real signal aborts with it: asked for %s", (when) => {
  const abort = new LightAbort();
  const early = when === "before" ? abort.signal : undefined;
  abort.abort(reason);
  const { signal } = abort;
  expect(signal).toBeInstanceOf(AbortSignal);
  expect(signal).toMatchObject({ aborted: true, reason });
  expect(early ?? signal).toBe(signal);
});
