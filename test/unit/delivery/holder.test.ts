import { expect, test } from "vitest";
import { Holder } from "../../../src/delivery/holder.ts";

const NOW = 1_000;

interface Held {
  inFlight: number;
  waiting: number;
  characters: number;
}

function holder(held: Partial<Held> = {}): Holder {
  return Object.assign(new Holder(80), held);
}

test.each<{ why: string; held: Held; recovers: boolean }>([
  {
    why: "at half of both",
    held: { inFlight: 3, waiting: 2, characters: 50 },
    recovers: true,
  },
  {
    why: "not while it holds more runs",
    held: { inFlight: 3, waiting: 3, characters: 0 },
    recovers: false,
  },
  {
    why: "not while it holds more characters",
    held: { inFlight: 1, waiting: 0, characters: 51 },
    recovers: false,
  },
])("who was packed recovers once: $why", ({ held, recovers }) => {
  for (const [places, characters] of [
    [9, Infinity],
    [Infinity, 99],
  ] as const) {
    const of = holder({ inFlight: 4, waiting: 6, characters: 100 });
    expect(of.packed(places, characters)).toBe(true);
    Object.assign(of, held);
    expect(of.recovers(100)).toBe(recovers);
    expect(of.recovers(100)).toBe(false);
  }
});

test("who holds as much as it may is not packed", () => {
  expect(holder({ inFlight: 9, characters: 99 }).packed(9, 99)).toBe(false);
});

test.each([
  { slots: 0, inFlight: 0, recovers: false },
  { slots: 1, inFlight: 0, recovers: true },
  { slots: 4, inFlight: 5, recovers: false },
  { slots: 4, inFlight: 4, recovers: true },
  // So many are enough, however many it has.
  { slots: 79, inFlight: 200, recovers: false },
  { slots: 80, inFlight: 200, recovers: true },
])("who was crowded and has $inFlight in flight: $slots slots", ({ slots, inFlight, recovers }) => {
  const of = holder({ inFlight });
  expect(of.crowded(0, NOW)).toBe(true);
  expect(of.recovers(slots)).toBe(recovers);
  expect(of.recovers(slots)).toBe(false);
});

test("runs that wait for slots have been counted when it was judged: others that are taken do not matter", () => {
  const of = holder();
  expect(of.crowded(0, NOW)).toBe(true);
  of.unqueued();
  expect(of.recovers(10)).toBe(true);
});
