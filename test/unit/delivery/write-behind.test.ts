import { expect, test } from "vitest";
import { createWriteBehind } from "../../../src/delivery/write-behind.ts";
import { ContentRefused } from "../../../src/domain/ports/content-refused.ts";
import {
  DependencyUnavailable,
  LockHeld,
} from "../../../src/domain/ports/dependency-unavailable.ts";
import { FakeTime, settle } from "../controller/controller-world.ts";

function world(maxBatch = 100) {
  const time = new FakeTime(0);
  const written: { at: number; items: readonly number[] }[] = [];
  let writing: PromiseWithResolvers<void> | undefined;
  let timersMade = 0;
  const behind = createWriteBehind<number>({
    write: async (items) => {
      written.push({ at: time.now(), items });
      writing = Promise.withResolvers<void>();
      await writing.promise;
    },
    onRefused: () => undefined,
    onOutage: (error) => {
      throw error;
    },
    timers: {
      after: (ms, callback) => {
        timersMade += 1;
        return time.after(ms, callback);
      },
    },
    collectMs: 10,
    maxBatch,
  });
  return {
    behind,
    written,
    timersMade: () => timersMade,
    pass: (ms: number) => time.advanceTo(time.now() + ms),
    finish: async () => {
      writing?.resolve();
      await settle();
    },
  };
}

test("what comes within the time is written together", async () => {
  const { behind, written, timersMade, pass, finish } = world();
  behind.add(1);
  await pass(9);
  behind.add(2);
  expect(written).toEqual([]);
  await pass(1);
  expect(written).toEqual([{ at: 10, items: [1, 2] }]);
  // Then there is no timer until more comes.
  await finish();
  await pass(100);
  expect(timersMade()).toBe(1);
});

test("where nobody comes for whom to wait, it waits for less", async () => {
  const { behind, written, pass, finish } = world();
  behind.flushSoon();
  behind.add(1);
  await pass(3);
  behind.flushSoon();
  // Saying it again does not prolong the wait.
  await pass(4);
  behind.flushSoon();
  behind.add(2);
  await pass(1);
  expect(written).toEqual([{ at: 8, items: [1, 2] }]);
  // A write under way does not prolong the wait of items that come meanwhile.
  behind.add(3);
  behind.flushSoon();
  await finish();
  await pass(5);
  expect(written).toEqual([
    { at: 8, items: [1, 2] },
    { at: 13, items: [3] },
  ]);
  await finish();
  // Items that come later wait for the full time.
  behind.add(4);
  await pass(9);
  expect(written).toHaveLength(2);
  // An item that has almost waited for the full time does not wait longer.
  behind.flushSoon();
  await pass(1);
  expect(written).toHaveLength(3);
});

test("what comes during a write waits for company once more", async () => {
  const { behind, written, pass, finish } = world();
  behind.add(1);
  await pass(10);
  behind.add(2);
  await pass(5);
  await finish();
  expect(written).toHaveLength(1);
  await pass(9);
  behind.add(3);
  await pass(1);
  expect(written[1]).toEqual({ at: 25, items: [2, 3] });
});

test("a full batch waits for nobody, and what comes after it for its own company", async () => {
  const { behind, written, pass, finish } = world(2);
  behind.add(1);
  await pass(4);
  behind.add(2);
  await finish();
  behind.add(3);
  await pass(9);
  expect(written).toEqual([{ at: 4, items: [1, 2] }]);
  await pass(1);
  expect(written[1]).toEqual({ at: 14, items: [3] });
});

test("of many, full batches follow each other", async () => {
  const { behind, written, finish } = world(2);
  for (const item of [1, 2, 3, 4, 5]) behind.add(item);
  expect(written.map(({ items }) => items)).toEqual([[1, 2]]);
  await finish();
  expect(written.map(({ items }) => items)).toEqual([
    [1, 2],
    [3, 4],
  ]);
  expect(behind.pending).toBe(3);
});

test("idle writes what is waiting at once, also what waits behind a write", async () => {
  const { behind, written, pass, finish } = world();
  behind.add(1);
  const alone = behind.idle();
  await finish();
  await alone;
  expect(written).toEqual([{ at: 0, items: [1] }]);

  behind.add(2);
  const first = behind.idle();
  behind.add(3);
  const second = behind.idle();
  await finish();
  expect(behind.pending).toBe(1);
  await finish();
  await Promise.all([first, second]);
  expect(written.flatMap(({ items }) => items)).toEqual([1, 2, 3]);
  expect(behind.pending).toBe(0);

  behind.add(4);
  await pass(10);
  expect(written.at(-1)?.items).toEqual([4]);
  let idle = false;
  const last = behind.idle().then(() => (idle = true));
  await pass(100);
  expect(idle).toBe(false);
  await finish();
  await last;
});

test("while the database is away it is tried less and less often, up to every two seconds", async () => {
  const time = new FakeTime(0);
  const tries: number[] = [];
  let away = true;
  const behind = createWriteBehind<number>({
    write: async () => {
      tries.push(time.now());
      if (away) throw new DependencyUnavailable("postgres");
    },
    onRefused: () => undefined,
    onOutage: () => undefined,
    timers: time,
    collectMs: 10,
    maxBatch: 100,
  });
  behind.add(1);
  await time.advanceTo(9_000);
  expect(tries).toEqual([10, 110, 310, 710, 1_510, 3_110, 5_110, 7_110]);
  away = false;
  await time.advanceTo(10_000);
  expect(behind.pending).toBe(0);
});

test("an outage is waited out; what is refused for its own sake is refused alone", async () => {
  const time = new FakeTime(0);
  const written: number[] = [];
  const refused: number[] = [];
  let outages = 0;
  const behind = createWriteBehind<number>({
    write: async (items) => {
      if (outages < 3) throw new DependencyUnavailable("postgres");
      if (items.includes(3) || items.includes(4)) throw new ContentRefused("refused");
      written.push(...items);
    },
    onRefused: (item) => refused.push(item),
    onOutage: () => (outages += 1),
    timers: time,
    collectMs: 10,
    maxBatch: 100,
  });
  for (const item of [1, 2, 3, 4, 5, 6, 7]) behind.add(item);
  await time.advanceTo(100);
  expect(behind.pending).toBe(7);
  await time.advanceTo(2_000);
  expect(written).toEqual([1, 2, 5, 6, 7]);
  expect(refused).toEqual([3, 4]);
  expect(behind.pending).toBe(0);
});

test("after an outage it feels its way: half as many with each failure, twice as many after each write", async () => {
  const time = new FakeTime(0);
  const sizes: number[] = [];
  let away = 3;
  const behind = createWriteBehind<number>({
    write: async (items) => {
      sizes.push(items.length);
      if (away-- > 0) throw new DependencyUnavailable("postgres");
    },
    onRefused: () => undefined,
    onOutage: () => undefined,
    timers: time,
    collectMs: 10,
    maxBatch: 16,
  });
  for (let item = 0; item < 32; item += 1) behind.add(item);
  for (let ms = 0; ms < 10_000; ms += 100) await time.advanceTo(ms);
  expect(sizes).toEqual([16, 8, 4, 2, 4, 8, 2, 16]);
  expect(behind.pending).toBe(0);
});

/**
 * Items are texts such as `a1`. Those that begin with a letter of `held` are locked by somebody, `faulty` ones cannot be
 * written, and the `refused` one is refused for its content.
 */
function trouble() {
  const time = new FakeTime(0);
  /** Whether an item waits for a lock, as it was last told. */
  const lockedOut = new Map<string, boolean>();
  const state: {
    held: string;
    named: boolean;
    faulty: (items: readonly string[]) => boolean;
    refused: string;
  } = {
    held: "",
    // Whether it can be told which items are locked.
    named: true,
    faulty: () => false,
    refused: "",
  };
  const writes: { at: number; items: readonly string[] }[] = [];
  const told: string[] = [];
  const isHeld = (item: string) => state.held.includes(item[0] ?? "");
  const behind = createWriteBehind<string>({
    write: async (items) => {
      writes.push({ at: time.now(), items });
      if (items.some(isHeld)) throw new LockHeld("postgres");
      if (items.includes(state.refused)) throw new ContentRefused("refused");
      if (state.faulty(items)) throw new Error("permission denied");
      writes.pop();
      written.push(...items);
    },
    locked: async (items) => new Set(state.named ? items.filter(isHeld) : []),
    lockedBy: (item) => item[0],
    onRefused: (item) => told.push(`refused ${item}`),
    onLocked: (items) => told.push(`locked ${items.join()}`),
    onLockedOut: (item, waits) => lockedOut.set(item, waits),
    onOutage: () => told.push("outage"),
    timers: time,
    collectMs: 10,
    maxBatch: 100,
  });
  const written: string[] = [];
  const add = (...items: string[]) => {
    for (const item of items) behind.add(item);
  };
  return { time, state, behind, add, written, failures: writes, told, lockedOut };
}

test("what somebody has locked waits apart, and holds up nothing but its own kind", async () => {
  const { time, state, behind, add, written, failures, told } = trouble();
  state.held = "a";
  add("a1", "b1", "a2", "c1");
  await time.advanceTo(10);
  expect(written).toEqual(["b1", "c1"]);
  expect(told).toEqual(["locked a1,a2"]);
  expect(behind.pending).toBe(2);
  // Items that wait for the same lock are put aside without another try.
  add("a3", "b2");
  await time.advanceTo(5_000);
  expect(written).toEqual(["b1", "c1", "b2"]);
  expect(failures).toHaveLength(1);
  const idle = behind.idle().then(() => written.push("idle"));
  await time.advanceTo(8_000);
  expect(written.at(-1)).toBe("b2");
  state.held = "";
  await time.advanceTo(9_000);
  await idle;
  expect(written).toEqual(["b1", "c1", "b2", "a1", "a2", "a3", "idle"]);
  expect(behind.pending).toBe(0);
  // Nothing is remembered of a lock that is released.
  add("a4");
  await time.advanceTo(9_010);
  expect(written.at(-1)).toBe("a4");
});

test("whoever holds one lock may hold many: none of the others is waited for again", async () => {
  const { time, state, behind, add, written, failures, lockedOut } = trouble();
  state.held = "ac";
  add("a1", "b1");
  await time.advanceTo(10);
  expect(failures).toHaveLength(1);
  add("b2", "c1", "c2", "d1");
  await time.advanceTo(30);
  add("c3", "d2");
  await time.advanceTo(50);
  expect(written).toEqual(["b1", "b2", "d1", "d2"]);
  expect(failures).toHaveLength(1);
  expect(behind.lockedOut).toBe(4);
  expect([...lockedOut]).toEqual(["a1", "c1", "c2", "c3"].map((item) => [item, true]));
  state.held = "";
  await time.advanceTo(3_000);
  expect(written.slice(4).toSorted()).toEqual(["a1", "c1", "c2", "c3"]);
  expect(behind.lockedOut).toBe(0);
  expect(new Set(lockedOut.values())).toEqual(new Set([false]));
});

test("a lock on nothing that could wait apart is waited for like an outage", async () => {
  const { time, state, behind, add, written } = trouble();
  state.held = "a";
  state.named = false;
  add("a1", "a2");
  await time.advanceTo(400);
  expect(behind.pending).toBe(2);
  state.held = "";
  await time.advanceTo(2_000);
  expect(written).toEqual(["a1", "a2"]);
});

test("while nothing can be written, for whatever reason, nothing gets lost", async () => {
  const { time, state, behind, add, written, told } = trouble();
  state.faulty = () => true;
  add("a1", "b1", "c1", "d1", "e1");
  for (let at = 0; at < 20_000; at += 100) await time.advanceTo(at);
  expect(behind.pending).toBe(5);
  expect(new Set(told)).toEqual(new Set(["outage"]));
  state.faulty = () => false;
  for (let at = 20_000; at < 30_000; at += 100) await time.advanceTo(at);
  expect(written.toSorted()).toEqual(["a1", "b1", "c1", "d1", "e1"]);
  expect(behind.pending).toBe(0);
});

test("what waits apart while the others are still to be written is counted once", async () => {
  const { time, state, behind, add } = trouble();
  state.held = "a";
  state.faulty = () => true;
  add("a1", "b1", "c1");
  await time.advanceTo(10);
  expect(behind.lockedOut).toBe(1);
  expect(behind.pending).toBe(3);
  // By then `b1` has been tried alone, and waits apart too.
  await time.advanceTo(110);
  expect(behind.pending).toBe(3);
});

test("what alone cannot be written, and nobody knows why, is tried alone from then on", async () => {
  const { time, state, behind, add, written, failures } = trouble();
  state.faulty = (items) => items.includes("c1");
  add("a1", "b1", "c1", "d1", "e1");
  for (let at = 0; at < 10_000; at += 100) await time.advanceTo(at);
  expect(written.toSorted()).toEqual(["a1", "b1", "d1", "e1"]);
  const alone = failures.length;
  add("f1");
  for (let at = 10_000; at < 13_000; at += 100) await time.advanceTo(at);
  expect(written).toContain("f1");
  expect(new Set(failures.slice(alone).flatMap(({ items }) => items))).toEqual(new Set(["c1"]));
  expect(behind.pending).toBe(1);
  const idle = behind.idle();
  state.faulty = () => false;
  await time.advanceTo(14_000);
  expect(behind.pending).toBe(0);
  await idle;
});

test("what could not be written and is then refused for its own sake is not tried again", async () => {
  const { time, state, behind, add, told } = trouble();
  state.faulty = (items) => items.includes("a1");
  add("a1");
  await time.advanceTo(10);
  expect(told).toEqual(["outage"]);
  state.refused = "a1";
  await time.advanceTo(5_000);
  expect(told).toEqual(["outage", "refused a1"]);
  expect(behind.pending).toBe(0);
});
