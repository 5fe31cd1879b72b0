import { expect, test } from "vitest";
import { revisionOf, sameRevision } from "../../../src/domain/revision.ts";
import { specFromResource } from "../../../src/kubernetes/scheduled-job.ts";

test("a revision is what PostgreSQL remembers: who changes it raises its form", () => {
  const webhook = { url: "https://example.com/", payload: { n: 1 }, headers: { "X-A": "1" } };
  const cron = specFromResource({ schedule: { cron: "0 3 * * *" }, webhook }, "job");
  expect(revisionOf({ generation: 7, spec: cron })).toBe("7:1:W-gQRf92X3Mbl7fT7hqZon");
  const email = { to: "a@b.example", subject: "s", body: "b" };
  const once = specFromResource({ schedule: { at: "2030-01-01T00:00:00Z" }, email }, "job");
  expect(revisionOf({ generation: 1, spec: once })).toBe("1:1:ndGmOwtZaCJC3sfpq9BWeM");
});

test.each([
  { known: { generation: 2, revision: "2:1:a" }, same: true },
  { known: { generation: 2, revision: "2:1:b" }, same: false },
  { known: { generation: 1, revision: "1:1:a" }, same: false },
  { known: { generation: 2, revision: null }, same: true },
  { known: { generation: 2, revision: "1:1:b" }, same: true },
  { known: { generation: 2, revision: "2:2:b" }, same: true },
])("$known is the same as 2:1:a → $same", ({ known, same }) => {
  expect(sameRevision(known, { generation: 2, revision: "2:1:a" })).toBe(same);
});
