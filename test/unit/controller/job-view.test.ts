import { expect, test } from "vitest";
import { JobView } from "../../../src/controller/job-view.ts";
import { aCursor, aJob } from "../domain/decide-builders.ts";

test.each([undefined, "listed"] as const)(
  "an equal job, as each of our status writes brings one, does not take the place of the one that is kept: %s",
  (listed) => {
    const view = new JobView();
    const job = aJob();
    view.put(job);
    expect(view.put(aJob({ owner: { tool: "Helm", name: "release" } }), listed)).toBe("irrelevant");
    expect(view.entries.get(job.uid)?.job).toBe(job);
  },
);

test.each([
  { what: "another spec", job: aJob({ generation: 2, spec: { suspend: true } }) },
  { what: "another account", job: aJob({ account: "account-2" }) },
  { what: "a request to run now", job: aJob({ runNow: "once" }) },
])("$what is kept", ({ job }) => {
  const view = new JobView();
  view.put(aJob());
  expect(view.put(job)).toBe("relevant");
  expect(view.entries.get(job.uid)?.job).toBe(job);
});

test("cursors that PostgreSQL does not have any more are dropped", () => {
  const view = new JobView();
  const [kept, lost] = [aJob({ uid: "kept" }), aJob({ uid: "lost" })];
  view.setCursors([aCursor(kept), aCursor(lost)]);
  view.setCursors([aCursor(kept)]);
  expect([...view.cursors.keys()]).toEqual(["kept"]);
});

test("a cursor that is taken over says what it said, whatever its job says", () => {
  const view = new JobView();
  const job = aJob({ runNow: "now" });
  view.put(job);
  for (const cursor of [
    aCursor(job),
    aCursor(job, { account: "other", revision: "1:1:other", scheduleHash: "other" }),
    aCursor(job, { account: null, revision: null, lastRunNow: "before" }),
    aCursor(job, { lastRunNow: "now" }),
  ]) {
    view.setCursor({ ...cursor });
    expect(view.cursors.get(job.uid)).toEqual(cursor);
  }
});
