import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { bodyRoomBytes, createBodyRoom } from "../../../src/gateway/body-room.ts";
import { ApiError } from "../../../src/gateway/errors.ts";

const MIB = 1_048_576;

function roomOf(mib: number) {
  const alarms = new Set<() => void>();
  const room = createBodyRoom({
    bytes: mib * MIB,
    timers: {
      after: (_ms, alarm) => {
        alarms.add(alarm);
        return { cancel: () => alarms.delete(alarm) };
      },
    },
  });
  const inside: string[] = [];
  const leave = new Map<string, () => void>();
  const arrival = new Map<string, (bytes: number) => void>();
  const outcomes = new Map<string, Promise<string>>();
  return {
    inside,
    /** Ends the time of the one that has waited longest. */
    runOut: async () => {
      const [alarm] = alarms;
      alarm?.();
      await turn();
    },
    waiting: () => alarms.size,
    outcome: (name: string) => outcomes.get(name),
    leave: async (name: string) => {
      leave.get(name)?.();
      await turn();
    },
    /** The body, whose size was not known before, has arrived. */
    arrive: async (name: string, size: number) => {
      arrival.get(name)?.(size * MIB);
      await turn();
    },
    /** `a1` is the first request of account a. */
    enter: async (name: string, size: number, failure?: string): Promise<void> => {
      const gate = Promise.withResolvers<void>();
      leave.set(name, gate.resolve);
      const answered = room.within(
        { account: name.slice(0, 1), bytes: size * MIB },
        async (came) => {
          arrival.set(name, came);
          inside.push(name);
          await gate.promise;
          inside.splice(inside.indexOf(name), 1);
          if (failure !== undefined) throw new Error(failure);
        },
      );
      outcomes.set(
        name,
        answered.then(
          () => "answered",
          (error: unknown) =>
            error instanceof ApiError
              ? `${error.code} ${error.headers["Retry-After"]}`
              : String(error),
        ),
      );
      await turn();
    },
  };
}

test.each([
  { what: "without a limit", heapLimit: 4_144 * MIB, memoryLimit: 0, room: 259 * MIB },
  { what: "of any size", heapLimit: 4_144 * MIB, memoryLimit: 2 ** 64, room: 259 * MIB },
  { what: "of 512 MiB", heapLimit: 259 * MIB, memoryLimit: 512 * MIB, room: 16 * MIB },
  { what: "of 192 MiB", heapLimit: 259 * MIB, memoryLimit: 192 * MIB, room: 6 * MIB },
])("the room in a memory $what", ({ room, ...limits }) => {
  expect(bodyRoomBytes(limits)).toBe(room);
});

test("one account has half of the room, and holds up nobody else", async () => {
  const { enter, leave, inside } = roomOf(32);
  for (const name of ["a1", "a2", "a3", "a4"]) await enter(name, 8);
  expect(inside).toEqual(["a1", "a2"]);
  await enter("b1", 8);
  expect(inside).toEqual(["a1", "a2", "b1"]);
  await leave("a1");
  expect(inside).toEqual(["a2", "b1", "a3"]);
});

test("within an account nobody is overtaken by smaller ones", async () => {
  const { enter, leave, inside } = roomOf(32);
  for (const [name, size] of [
    ["a1", 12],
    ["a2", 8],
    ["a3", 2],
  ] as const)
    await enter(name, size);
  expect(inside).toEqual(["a1"]);
  await leave("a1");
  expect(inside).toEqual(["a2", "a3"]);
});

test("who waits for room is not overtaken by smaller ones", async () => {
  const { enter, leave, inside } = roomOf(32);
  for (const name of ["a1", "b1"]) await enter(name, 12);
  await enter("c1", 16);
  await enter("d1", 1);
  expect(inside).toEqual(["a1", "b1"]);
  await leave("a1");
  expect(inside).toEqual(["b1", "c1", "d1"]);
});

test("a body that is larger than the share has all of it, and no more: other accounts come in", async () => {
  const { enter, leave, inside } = roomOf(8);
  await enter("a1", 24);
  await enter("a2", 1);
  await enter("b1", 24);
  await enter("c1", 1);
  expect(inside).toEqual(["a1", "b1"]);
  await leave("a1");
  expect(inside).toEqual(["b1", "a2", "c1"]);
  await enter("d1", 4);
  expect(inside).toEqual(["b1", "a2", "c1"]);
});

test("once a body has come it takes the room of its own size, and leaves that", async () => {
  const { enter, arrive, leave, inside } = roomOf(8);
  await enter("a1", 4);
  await enter("a2", 3);
  await enter("b1", 4);
  expect(inside).toEqual(["a1", "b1"]);
  await arrive("a1", 1);
  expect(inside).toEqual(["a1", "b1", "a2"]);
  await leave("a1");
  await enter("a3", 2);
  expect(inside).toEqual(["b1", "a2"]);
  await leave("a2");
  expect(inside).toEqual(["b1", "a3"]);
});

test("a body that is larger than was said takes no more room than that", async () => {
  const { enter, arrive, leave, inside } = roomOf(8);
  await enter("a1", 2);
  await arrive("a1", 4);
  await enter("a2", 2);
  expect(inside).toEqual(["a1", "a2"]);
  for (const name of ["a1", "a2"]) await leave(name);
  await enter("a3", 4);
  await enter("b1", 4);
  expect(inside).toEqual(["a3", "b1"]);
});

test("a request that fails leaves its room", async () => {
  const { enter, leave, inside, outcome } = roomOf(8);
  await enter("a1", 4, "fails");
  await leave("a1");
  expect(await outcome("a1")).toBe("Error: fails");
  await enter("a2", 4);
  expect(inside).toEqual(["a2"]);
});

test("small ones do not wait", async () => {
  const { enter, inside, waiting } = roomOf(8);
  await enter("a1", 24);
  await enter("a2", 0.007);
  expect(inside).toEqual(["a1", "a2"]);
  expect(waiting()).toBe(0);
});

test("who waits too long is refused, and holds up nobody any longer", async () => {
  const { enter, leave, inside, runOut, outcome } = roomOf(8);
  for (const [name, size] of [
    ["a1", 4],
    ["b1", 2],
    ["c1", 4],
    ["d1", 2],
  ] as const)
    await enter(name, size);
  expect(inside).toEqual(["a1", "b1"]);
  await runOut();
  expect(await outcome("c1")).toBe("rate_limited 5");
  expect(inside).toEqual(["a1", "b1", "d1"]);
  for (const name of ["a1", "b1", "d1"]) await leave(name);
  expect(inside).toEqual([]);
  await enter("e1", 4);
  expect(inside).toEqual(["e1"]);
});

test("of smaller ones as many wait as have room in their account's share", async () => {
  const { enter, inside, waiting, outcome } = roomOf(32);
  for (let each = 1; each <= 300; each += 1) await enter(`a${each}`, 0.125);
  expect(inside).toHaveLength(128);
  expect(waiting()).toBe(128);
  expect(await outcome("a300")).toBe("rate_limited 5");
  await enter("b1", 16);
  expect(inside).toContain("b1");
});

test("one account's crowd is refused, and nobody else", async () => {
  const { enter, inside, waiting, outcome } = roomOf(8);
  for (let each = 1; each <= 150; each += 1) await enter(`a${each}`, 4);
  expect(waiting()).toBe(100);
  expect(await outcome("a150")).toBe("rate_limited 5");
  await enter("b1", 4);
  expect(inside).toEqual(["a1", "b1"]);
});
