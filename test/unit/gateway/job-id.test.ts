import { expect, test } from "vitest";
import { canBeJobId, derivedJobId, newJobId, OUR_JOB_ID } from "../../../src/gateway/job-id.ts";

const zeros = new Uint8Array(10);

test("ids are UUIDv7, valid resource names, and sort by time", () => {
  const id = newJobId(Date.UTC(2026, 10, 21), new Uint8Array(10).fill(0xff));
  expect(id).toMatch(/^job-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(canBeJobId(id)).toBe(true);
  expect(newJobId(2, zeros) > newJobId(1, new Uint8Array(10).fill(0xff))).toBe(true);
});

test("the same key of the same account gives the same id, and no other does", () => {
  const id = derivedJobId("a", "k");
  expect(derivedJobId("a", "k")).toBe(id);
  expect(canBeJobId(id)).toBe(true);
  expect(
    new Set([id, derivedJobId("b", "k"), derivedJobId("a", "l"), derivedJobId("a\u0000k", "")])
      .size,
  ).toBe(4);
});

const notIds = ["", "A", "a_b", "-a", "a-", ".a", "a..b", "a/b", "%00", "a".repeat(254)];
test.each(notIds)("%j is no job id", (id) => {
  expect(canBeJobId(id)).toBe(false);
});
test.each(["a", "nightly-report", "a.b", "0"])("%j is a job id", (id) => {
  expect(canBeJobId(id)).toBe(true);
});

test("ids that are made here are known from names", () => {
  const ours = [newJobId(Date.UTC(2026, 10, 21), zeros), derivedJobId("a", "k")];
  expect(ours.filter((id) => !OUR_JOB_ID.test(id))).toEqual([]);
  const names = ["job-reminder", "job-", "a", ...ours.map((id) => `${id}0`), `a-${ours[1]}`];
  expect(names.filter((id) => OUR_JOB_ID.test(id))).toEqual([]);
});
