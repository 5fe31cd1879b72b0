import { expect, test } from "vitest";
import { deliveryLimits } from "../../../src/delivery/held-runs.ts";

const table = [
  { what: "the defaults", given: {}, shares: [384, 160, 256] },
  { what: "a small process", given: { concurrency: 64 }, shares: [32, 20, 21] },
  { what: "one at a time", given: { concurrency: 1 }, shares: [1, 1, 1] },
  { what: "a large process", given: { concurrency: 9_000 }, shares: [384, 160, 256] },
  {
    what: "shares that are given",
    given: { concurrency: 8, perAccount: 8, perDestination: 8 },
    shares: [8, 8, 8],
  },
  { what: "a destination's that is given", given: { perDestination: 3 }, shares: [384, 3, 3] },
] as const;

for (const { what, given, shares } of table)
  test(`${what}: one account, one destination, a quick one has a part of the slots`, () => {
    const { perAccount, perDestination, perQuickDestination } = deliveryLimits(given);
    expect([perAccount, perDestination, perQuickDestination]).toEqual(shares);
  });
