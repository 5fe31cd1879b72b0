import { expect, test } from "vitest";
import { createLeaseKeeper } from "../../../src/delivery/lease-keeper.ts";
import type { Claim } from "../../../src/domain/ports/run-queue.ts";

function keeper(stillHeld: (claims: readonly Claim[]) => readonly string[]) {
  let now = 0;
  const lost: string[] = [];
  const asked: Claim[][] = [];
  const leases = createLeaseKeeper({
    queue: {
      renew: async (claims) => {
        asked.push([...claims]);
        return new Map(stillHeld(claims).map((id) => [id, id === "locked" ? "locked" : "renewed"]));
      },
    },
    leaseMs: 20_000,
    monotonic: () => now,
    onLost: ({ id, claimToken }) => lost.push(`${id} ${claimToken}`),
  });
  return { leases, lost, asked, sleep: (ms: number) => (now += ms) };
}

const OLD = { id: "run", claimToken: "old" };
const NEW = { id: "run", claimToken: "new" };

test("a second claim of a run says nothing about the first", () => {
  const { leases } = keeper(() => []);
  leases.add([OLD], 0);
  leases.add([NEW], 0);
  expect(leases.holds(OLD)).toBe(false);
  leases.remove(OLD);
  expect(leases.holds(NEW)).toBe(true);
});

test("what was closed or handed back is held and renewed no more", async () => {
  const { leases, asked } = keeper(() => []);
  leases.add([NEW], 0);
  leases.remove(NEW);
  expect(leases.holds(NEW)).toBe(false);
  await leases.renew();
  expect(asked).toEqual([]);
});

test("what is closed, or claimed again, while leases are renewed is not lost", async () => {
  const other = { id: "other", claimToken: "token" };
  const { leases, lost } = keeper(() => {
    leases.remove(other);
    leases.add([NEW], 0);
    return [];
  });
  leases.add([OLD, other], 0);
  await leases.renew();
  expect(lost).toEqual([]);
  expect(leases.holds(NEW)).toBe(true);
});

test("only what is held here is renewed; what somebody else has is lost", async () => {
  const { leases, lost, asked, sleep } = keeper((claims) =>
    claims.flatMap(({ id }) => (id === "run" ? [id] : [])),
  );
  leases.add([NEW, { id: "other", claimToken: "token" }], 0);
  sleep(18_000);
  await leases.renew();
  expect(asked).toEqual([[NEW, { id: "other", claimToken: "token" }]]);
  expect(lost).toEqual(["other token"]);
  expect(leases.holds({ id: "other", claimToken: "token" })).toBe(false);
  sleep(18_000);
  expect(leases.holds(NEW)).toBe(true);
  sleep(2_000);
  expect(leases.holds(NEW)).toBe(false);
});

test("what somebody has locked is neither renewed nor lost", async () => {
  const locked = { id: "locked", claimToken: "token" };
  const { leases, lost, sleep } = keeper((claims) => claims.map(({ id }) => id));
  leases.add([locked, NEW], 0);
  sleep(18_000);
  await leases.renew();
  expect(leases.holds(locked)).toBe(true);
  sleep(2_000);
  expect(leases.holds(locked)).toBe(false);
  expect(leases.holds(NEW)).toBe(true);
  expect(lost).toEqual([]);
});

test("a lease counts from the moment at which it was asked for, and ends a second early", async () => {
  const { leases, sleep } = keeper((claims) => {
    sleep(5_000);
    return claims.map(({ id }) => id);
  });
  sleep(5_000);
  leases.add([NEW], 0);
  sleep(13_999);
  expect(leases.holds(NEW)).toBe(true);
  sleep(1);
  expect(leases.holds(NEW)).toBe(false);
  await leases.renew();
  sleep(13_999);
  expect(leases.holds(NEW)).toBe(true);
  sleep(1);
  expect(leases.holds(NEW)).toBe(false);
});
