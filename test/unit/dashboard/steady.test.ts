import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSteadyScheduler, type Presses } from "../../../src/dashboard/src/steady.ts";

let page: EventTarget;
let schedule: (callback: () => void) => void;
let drawn: string[];
beforeEach(() => {
  vi.useFakeTimers();
  page = new EventTarget();
  schedule = createSteadyScheduler(page as EventTarget & Presses);
  drawn = [];
});
afterEach(() => {
  vi.useRealTimers();
});

function pointer(type: string, { isPrimary = true, button = 0 } = {}): void {
  page.dispatchEvent(Object.assign(new Event(type), { isPrimary, button }));
}

/** Schedules a drawing, and returns what has been drawn `ms` later. */
async function loaded(what: string, ms = 0): Promise<string[]> {
  schedule(() => drawn.push(what));
  await vi.advanceTimersByTimeAsync(ms);
  return drawn;
}

test("what is loaded is drawn at once, and in its order after a press", async () => {
  expect(await loaded("before")).toEqual(["before"]);
  pointer("pointerdown");
  await loaded("one", 1_000);
  expect(await loaded("two", 1_000)).toEqual(["before"]);
  pointer("pointerup");
  pointer("click");
  expect(drawn).toEqual(["before"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(drawn).toEqual(["before", "one", "two"]);
});

test("what a click begins is drawn before the next one, and what was held only behind the click", async () => {
  pointer("pointerdown");
  await loaded("held", 1_000);
  page.addEventListener("click", () => {
    schedule(() => drawn.push("begun"));
  });
  pointer("pointerup");
  pointer("click");
  await Promise.resolve();
  expect(drawn).toEqual(["begun"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(drawn).toEqual(["begun", "held"]);
});

test.each([
  { press: "comes to no click", end: "pointerup", ms: 100 },
  { press: "ends where nobody hears of it", end: "blur", ms: 5_000 },
])("what a press holds that $press is drawn after $ms ms", async ({ end, ms }) => {
  pointer("pointerdown");
  await loaded("held");
  pointer(end);
  await vi.advanceTimersByTimeAsync(ms - 1);
  expect(drawn).toEqual([]);
  await vi.advanceTimersByTimeAsync(2);
  expect(drawn).toEqual(["held"]);
});

test("what a press holds that begins to scroll is drawn then", async () => {
  pointer("pointerdown");
  expect(await loaded("held", 10)).toEqual([]);
  pointer("pointercancel");
  await vi.advanceTimersByTimeAsync(1);
  expect(drawn).toEqual(["held"]);
});

test.each(["pointerup", "pointercancel"])("%s of another finger ends no press", async (end) => {
  pointer("pointerdown");
  pointer("pointerdown", { isPrimary: false });
  pointer(end, { isPrimary: false });
  expect(await loaded("held", 1_000)).toEqual([]);
  pointer("pointerup");
  pointer("click");
  await vi.advanceTimersByTimeAsync(1);
  expect(drawn).toEqual(["held"]);
});

test("the second press of a double click is held as the first one was", async () => {
  for (const press of ["first", "second"]) {
    pointer("pointerdown");
    expect(await loaded(press, 200)).not.toContain(press);
    pointer("pointerup");
    pointer("click");
    await vi.advanceTimersByTimeAsync(1);
    expect(drawn).toContain(press);
  }
});

test.each([{ button: 2 }, { button: 1 }, { isPrimary: false }])(
  "a press that clicks nothing holds nothing: %j",
  async (press) => {
    pointer("pointerdown", press);
    expect(await loaded("at once")).toEqual(["at once"]);
  },
);
