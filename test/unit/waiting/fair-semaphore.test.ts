import { expect, test } from "vitest";
import { createFairSemaphore } from "../../../src/waiting/fair-semaphore.ts";

/** Takes a turn, and records in `order` when it came. */
function taker(turns: ReturnType<typeof createFairSemaphore>, order: string[]) {
  return async (name: string, signal?: AbortSignal): Promise<boolean> => {
    const turn = await turns.acquire(signal);
    order.push(`${name}: ${turn}`);
    return turn;
  };
}

test("so many at a time, the others in their order", async () => {
  const turns = createFairSemaphore({ atOnce: 2 });
  const order: string[] = [];
  const take = taker(turns, order);
  await Promise.all([take("a"), take("b")]);
  const others = [take("c"), take("d"), take("e")];
  await Promise.resolve();
  expect(order).toEqual(["a: true", "b: true"]);
  turns.release();
  await others[0];
  // A newcomer does not get ahead of those who wait.
  const late = take("f");
  turns.release();
  turns.release();
  await Promise.all(others);
  turns.release();
  await late;
  expect(order.slice(2)).toEqual(["c: true", "d: true", "e: true", "f: true"]);
});

test("one party's crowd is one of those who wait", async () => {
  const turns = createFairSemaphore({ atOnce: 1 });
  const order: string[] = [];
  const join = async (name: string, signal?: AbortSignal): Promise<void> => {
    const turn = await turns.acquire(signal, name.slice(0, 1));
    order.push(`${name}: ${turn}`);
    if (turn) turns.release();
  };
  await turns.acquire(undefined, "a");
  const gone = new AbortController();
  const all = ["a1", "a2", "a3", "b1", "c1", "b2"].map((name) => join(name));
  const given = join("d1", gone.signal);
  gone.abort();
  turns.release();
  await Promise.all([...all, given]);
  expect(order.filter((line) => line !== "d1: false")).toEqual(
    ["a1", "b1", "c1", "a2", "b2", "a3"].map((name) => `${name}: true`),
  );
});

test("a signal that comes after the turn changes nothing", async () => {
  const turns = createFairSemaphore({ atOnce: 1 });
  const controller = new AbortController();
  await turns.acquire();
  const taken = turns.acquire(controller.signal);
  turns.release();
  expect(await taken).toBe(true);
  controller.abort();
  expect(turns.waiting()).toBe(0);
});

test("who gives up is passed over, and takes no turn", async () => {
  const turns = createFairSemaphore({ atOnce: 1 });
  const order: string[] = [];
  const take = taker(turns, order);
  const controller = new AbortController();
  await take("a");
  const given = take("b", controller.signal);
  const next = take("c");
  controller.abort();
  expect(await given).toBe(false);
  turns.release();
  expect(await next).toBe(true);
  turns.release();
  // A signal that aborts after the turn has come changes nothing.
  const after = new AbortController();
  expect(await take("d", after.signal)).toBe(true);
  after.abort();
  turns.release();
  expect(await take("e")).toBe(true);
  expect(await turns.acquire(AbortSignal.abort())).toBe(false);
});

test("no more wait than may", async () => {
  const turns = createFairSemaphore({ atOnce: 1, maxWaiting: 1 });
  await turns.acquire();
  const waiting = turns.acquire();
  expect(await turns.acquire()).toBe(false);
  expect(turns.waiting()).toBe(1);
  turns.release();
  expect(await waiting).toBe(true);
  expect(turns.waiting()).toBe(0);
});

test("closed: those who wait and those who come get none", async () => {
  const turns = createFairSemaphore({ atOnce: 1 });
  await turns.acquire();
  const waiting = [turns.acquire(), turns.acquire()];
  turns.close();
  expect(await Promise.all(waiting)).toEqual([false, false]);
  turns.release();
  expect(await turns.acquire()).toBe(false);
});
