import { getEventListeners } from "node:events";
import { Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connectAny } from "../../../src/network/connect-any.ts";

/** The connections by address, in the order in which they were begun. */
let begun: Map<string, Socket>;
let ending: AbortController;

beforeEach(() => {
  vi.useFakeTimers();
  begun = new Map();
  ending = new AbortController();
});
afterEach(() => {
  vi.useRealTimers();
});

function connecting(...addresses: string[]): Promise<Socket> {
  return connectAny({
    addresses,
    connect: (address) => {
      const socket = new Socket();
      begun.set(address, socket);
      return socket;
    },
    signal: ending.signal,
  });
}

function socketOf(address: string): Socket {
  const socket = begun.get(address);
  if (socket === undefined) throw new Error(`${address} was not tried`);
  return socket;
}

function fail(address: string, code: string): void {
  socketOf(address).emit("error", Object.assign(new Error(code), { code }));
}

const tried = () => [...begun.keys()];
const destroyed = () => tried().filter((address) => socketOf(address).destroyed);

test("one that takes its time is not given up for the next, which nobody reaches", async () => {
  const connected = connecting("192.0.2.1", "2001:db8::1");
  vi.advanceTimersByTime(499);
  expect(tried()).toEqual(["192.0.2.1"]);
  vi.advanceTimersByTime(1);
  expect(tried()).toEqual(["192.0.2.1", "2001:db8::1"]);
  fail("2001:db8::1", "ENETUNREACH");
  vi.advanceTimersByTime(5_000);
  socketOf("192.0.2.1").emit("connect");
  expect(await connected).toBe(socketOf("192.0.2.1"));
  expect(destroyed()).toEqual(["2001:db8::1"]);
});

test("the first that is there wins, and the others are not made any more", async () => {
  const connected = connecting("192.0.2.1", "192.0.2.2", "192.0.2.3");
  vi.advanceTimersByTime(500);
  socketOf("192.0.2.2").emit("connect");
  expect(await connected).toBe(socketOf("192.0.2.2"));
  expect(destroyed()).toEqual(["192.0.2.1"]);
  vi.advanceTimersByTime(5_000);
  expect(tried()).toEqual(["192.0.2.1", "192.0.2.2"]);
});

test("an error of the one that won is its owner's", async () => {
  const connected = connecting("192.0.2.1");
  socketOf("192.0.2.1").emit("connect");
  expect((await connected).listenerCount("error")).toBe(0);
});

test.each(["connect", "error"])("when it is over (%s), its signal may stay", async (event) => {
  const connected = connecting("192.0.2.1").catch(() => undefined);
  expect(getEventListeners(ending.signal, "abort")).toHaveLength(1);
  socketOf("192.0.2.1").emit(event, new Error("refused"));
  await connected;
  expect(getEventListeners(ending.signal, "abort")).toEqual([]);
});

test("the next one is tried at once when one fails; each family in turn", async () => {
  const connected = connecting("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1");
  fail("192.0.2.1", "ECONNREFUSED");
  fail("2001:db8::1", "ENETUNREACH");
  expect(tried()).toEqual(["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
  vi.advanceTimersByTime(499);
  expect(begun.size).toBe(3);
  vi.advanceTimersByTime(1);
  expect(tried().at(-1)).toBe("192.0.2.3");
  socketOf("192.0.2.2").emit("connect");
  expect(await connected).toBe(socketOf("192.0.2.2"));
});

test("when all have failed it is the first one's error, whenever that came", async () => {
  const connected = connecting("192.0.2.1", "2001:db8::1");
  vi.advanceTimersByTime(500);
  fail("2001:db8::1", "ENETUNREACH");
  fail("192.0.2.1", "ECONNREFUSED");
  await expect(connected).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

test("each is tried before all have failed, also where only one is of the first one's family", async () => {
  const addresses = ["2001:db8::1", "192.0.2.1", "192.0.2.2"];
  const connected = connecting(...addresses);
  fail("2001:db8::1", "EHOSTUNREACH");
  fail("192.0.2.1", "ECONNREFUSED");
  fail("192.0.2.2", "ECONNRESET");
  await expect(connected).rejects.toMatchObject({ code: "EHOSTUNREACH" });
  expect(tried()).toEqual(addresses);
});

test("given up, none goes on", async () => {
  const connected = connecting("192.0.2.1", "192.0.2.2", "192.0.2.3");
  vi.advanceTimersByTime(500);
  ending.abort(new Error("enough"));
  await expect(connected).rejects.toThrow("enough");
  expect(destroyed()).toEqual(["192.0.2.1", "192.0.2.2"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("given up before it began, none is tried", async () => {
  ending.abort(new Error("enough"));
  await expect(connecting("192.0.2.1")).rejects.toThrow("enough");
  expect(tried()).toEqual([]);
});
