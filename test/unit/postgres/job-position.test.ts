import { describe, expect, test } from "vitest";
import { PositionExpired } from "../../../src/domain/ports/job-store.ts";
import {
  parsePosition,
  positionAfter,
  positionOf,
  positionText,
} from "../../../src/postgres/job-position.ts";

const ORIGIN = "1763856000.123456-16412";
const NOW = { origin: ORIGIN, snapshot: "80:125:80,120", purged: "90" };

describe("an earlier position", () => {
  test.each<[string, string, boolean]>([
    ["leads here", `${ORIGIN}:100:100:`, true],
    ["is where we are", `${ORIGIN}:80:125:80,120`, true],
    ["is later than any transaction that there was", `${ORIGIN}:126:126:`, false],
    ["is just behind what is forgotten", `${ORIGIN}:91:91:`, true],
    ["is where deletions are forgotten", `${ORIGIN}:90:90:`, false],
    ["has seen none of a transaction that is still open", `${ORIGIN}:80:100:80,95`, true],
    ["has not seen one that may have deleted what is forgotten", `${ORIGIN}:85:100:85`, false],
    ["has not seen the very one that deleted the last of it", `${ORIGIN}:90:100:90`, false],
    ["is of another server", "1763856001.5-16412:100:100:", false],
    ["is of another table", "1763856000.123456-16413:100:100:", false],
  ])("%s", (_name, from, leads) => {
    const after = positionAfter(parsePosition(from), [NOW]);
    expect(after).toEqual(leads ? positionOf([NOW]) : undefined);
  });

  test("leads anywhere when nothing was ever forgotten", () => {
    const from = parsePosition(`${ORIGIN}:1:1:`);
    expect(positionAfter(from, [{ ...NOW, purged: null }])).toEqual(positionOf([NOW]));
  });
});

test("a position is read from its text again", () => {
  const position = positionOf([NOW]);
  expect(position).toMatchObject({ open: [80n, 120n], next: 125n });
  expect(parsePosition(positionText(position))).toEqual(position);
});

test.each([
  "",
  "120",
  ":120:120:",
  `${ORIGIN}:`,
  // As an older release wrote positions.
  `${ORIGIN}:120`,
  `${ORIGIN}:120:125`,
  `${ORIGIN}:120:125:x`,
  `${ORIGIN}:120:125:120,`,
  `${ORIGIN}:-1:5:`,
  `${ORIGIN}:1:123456789012345678901:`,
])("%j is no position", (text) => {
  expect(() => parsePosition(text)).toThrow(PositionExpired);
});
