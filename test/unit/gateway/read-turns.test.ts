import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createListTurns, createReadTurns } from "../../../src/gateway/read-turns.ts";

test("accounts take turns, and a read that fails gives its own back", async () => {
  const inTurn = createReadTurns({ atOnce: 1, timers });
  const order: string[] = [];
  const read = (name: string) =>
    inTurn(name.slice(0, 1), async () => {
      order.push(name);
      await Promise.resolve();
      throw new Error(name);
    });
  const all = await Promise.allSettled(["a1", "a2", "a3", "b1"].map(read));
  expect(order).toEqual(["a1", "a2", "b1", "a3"]);
  expect(all.map(({ status }) => status)).toEqual(all.map(() => "rejected"));
});

test("who has waited for too long is refused, and holds up nobody", async () => {
  const alarms: (() => void)[] = [];
  const inTurn = createReadTurns({
    atOnce: 1,
    timers: {
      after: (_ms, alarm) => {
        alarms.push(alarm);
        return { cancel: () => undefined };
      },
    },
  });
  const slow = Promise.withResolvers<string>();
  const first = inTurn("a", () => slow.promise);
  const late = inTurn("a", () => Promise.reject(new Error("must not be read")));
  alarms[1]?.();
  await expect(late).rejects.toMatchObject({ code: "rate_limited", status: 429 });
  const next = inTurn("a", async () => "read");
  slow.resolve("slowly");
  expect(await Promise.all([first, next])).toEqual(["slowly", "read"]);
});

test.each([
  { connections: 2, reads: 1, pages: 1, both: 1 },
  { connections: 3, reads: 1, pages: 1, both: 2 },
  { connections: 4, reads: 1, pages: 1, both: 2 },
  { connections: 5, reads: 2, pages: 1, both: 3 },
  { connections: 10, reads: 4, pages: 2, both: 6 },
  { connections: 500, reads: 4, pages: 2, both: 6 },
])("of $connections connections lists take $both at most", async ({ connections, ...most }) => {
  const atOnce = async (...kinds: ("read" | "page")[]) => {
    const turns = createListTurns({ connections, timers: { after: () => ({ cancel: () => {} }) } });
    let count = 0;
    const hangs = () => new Promise(() => (count += 1));
    for (let each = 0; each < 10; each += 1) for (const kind of kinds) void turns[kind]("a", hangs);
    await setImmediate();
    return count;
  };
  expect(await atOnce("read")).toBe(most.reads);
  expect(await atOnce("page")).toBe(most.pages);
  expect(await atOnce("read", "page")).toBe(most.both);
});
