import { describe, expect, test } from "vitest";
import { PositionExpired } from "../../../src/domain/ports/job-store.ts";
import {
  parsePosition,
  positionAfter,
  positionOf,
  positionText,
} from "../../../src/postgres/job-position.ts";

const ORIGIN = "1763856000.123456-16412";
const NOW = { origin: ORIGIN, xid: "120", end: "125", purged: "90" };

describe("an earlier position", () => {
  test.each<[string, { origin?: string; xid: bigint }, bigint | undefined]>([
    ["leads here", { xid: 100n }, 120n],
    ["is where we are", { xid: 120n }, 120n],
    ["may be later than the oldest transaction of now", { xid: 125n }, 120n],
    ["is later than any transaction that there was", { xid: 126n }, undefined],
    ["is just behind what is forgotten", { xid: 91n }, 120n],
    ["is where deletions are forgotten", { xid: 90n }, undefined],
    ["is of another server", { origin: "1763856001.5-16412", xid: 100n }, undefined],
    ["is of another table", { origin: "1763856000.123456-16413", xid: 100n }, undefined],
  ])("%s", (_name, { origin = ORIGIN, xid }, expected) => {
    const after = positionAfter({ origin, xid }, [NOW]);
    expect(after).toEqual(expected === undefined ? undefined : { origin: ORIGIN, xid: expected });
  });

  test("leads anywhere when nothing was ever forgotten", () => {
    expect(positionAfter({ origin: ORIGIN, xid: 1n }, [{ ...NOW, purged: null }])?.xid).toBe(120n);
  });
});

test("a position is read from its text again", () => {
  const position = positionOf([NOW]);
  expect(parsePosition(positionText(position))).toEqual(position);
});

test.each([
  "",
  "120",
  ":120",
  `${ORIGIN}:`,
  `${ORIGIN}:x`,
  `${ORIGIN}:-1`,
  `${ORIGIN}:123456789012345678901`,
])("%j is no position", (text) => {
  expect(() => parsePosition(text)).toThrow(PositionExpired);
});
