import { expect, test } from "vitest";
import { circuitOf } from "../../../src/domain/circuit-of.ts";
import type { CircuitState } from "../../../src/domain/ports/circuits.ts";
import { aJob } from "./decide-builders.ts";

const published = (...states: CircuitState[]) =>
  states.map((state) => ({
    account: "account-1",
    destination: "http://receiver.example",
    state,
  }));

const CASES: { name: string; of: ReturnType<typeof published>; is: CircuitState }[] = [
  { name: "nothing published: closed", of: [], is: "closed" },
  {
    name: "one process tries, the other calls nobody",
    of: published("open", "half_open"),
    is: "open",
  },
  { name: "in whatever order they are read", of: published("half_open", "open"), is: "open" },
  { name: "all try", of: published("half_open", "half_open"), is: "half_open" },
  {
    name: "another account's circuit of the same destination is none of its",
    of: published("open").map((one) => ({ ...one, account: "account-2" })),
    is: "closed",
  },
];

test.each(CASES)("$name", ({ of, is }) => {
  expect(circuitOf(aJob(), of)).toBe(is);
});

test("without an account there is none", () => {
  expect(circuitOf(aJob({ account: null }), published("open"))).toBe("closed");
});
