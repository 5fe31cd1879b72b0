import { expect, test } from "vitest";
import { deliveryLimits } from "../../../src/delivery/held-runs.ts";

const table = [
  { what: "the defaults", given: {}, perAccount: 256, perDestination: 160 },
  { what: "a small process", given: { concurrency: 64 }, perAccount: 32, perDestination: 20 },
  { what: "one at a time", given: { concurrency: 1 }, perAccount: 1, perDestination: 1 },
  { what: "a large process", given: { concurrency: 9_000 }, perAccount: 256, perDestination: 160 },
  {
    what: "shares that are given",
    given: { concurrency: 8, perAccount: 8, perDestination: 8 },
    perAccount: 8,
    perDestination: 8,
  },
] as const;

for (const { what, given, perAccount, perDestination } of table)
  test(`${what}: one account, one destination has a part of the slots`, () => {
    expect(deliveryLimits(given)).toMatchObject({ perAccount, perDestination });
  });
