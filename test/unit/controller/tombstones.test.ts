import { expect, test } from "vitest";
import { Tombstones } from "../../../src/controller/tombstones.ts";

test("deleted jobs that are locked by somebody stand in nobody's way", () => {
  const tombstones = new Tombstones();
  for (const uid of ["locked", "a", "b", "c"]) tombstones.add(uid, true);
  expect(tombstones.first(2, new Set(["locked"]))).toEqual(["a", "b"]);
});
