import { describe, expect, test } from "vitest";
import { JobView } from "../../../src/controller/job-view.ts";
import { outlineOf } from "../../../src/domain/job-outline.ts";
import type { Job, Target, WebhookTarget } from "../../../src/domain/job.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { aCursor, aJob, aSpec } from "../domain/decide-builders.ts";

test.each([undefined, "listed"] as const)(
  "an equal job, as each of our status writes brings one, does not take the place of the one that is kept: %s",
  (listed) => {
    const view = new JobView();
    view.put(aJob());
    const kept = view.entries.get("uid-1")?.job;
    expect(view.put(aJob({ owner: { tool: "Helm", name: "release" } }), listed)).toBe("irrelevant");
    expect(view.entries.get("uid-1")?.job).toBe(kept);
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
  expect(view.entries.get(job.uid)?.job).toEqual(outlineOf(job));
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

const webhook = aSpec().target as WebhookTarget;
const sends = (payload: string, change: Partial<Job> = {}): Job =>
  aJob({ ...change, spec: { target: { ...webhook, payload } } });

describe("what jobs send", () => {
  test("is kept until PostgreSQL has it", () => {
    const view = new JobView();
    const [first, second] = [sends("1"), sends("2", { generation: 2 })];
    view.put(first);
    expect(view.specOf("uid-1")).toBe(first.spec);
    view.setCursor(aCursor(first));
    expect(view.specOf("uid-1")).toBeUndefined();
    view.put(second);
    expect(view.specOf("uid-1")).toBe(second.spec);
    view.setCursor(aCursor(first));
    expect(view.specOf("uid-1")).toBe(second.spec);
    view.setCursor(aCursor(second));
    expect(view.specOf("uid-1")).toBeUndefined();
  });

  test("is not that of a revision that a restored store has gone back from", () => {
    const view = new JobView();
    const first = sends("1");
    view.put(first);
    view.setCursor(aCursor(first));
    view.put(sends("2", { generation: 2 }));
    expect(view.put(first, "listed")).toBe("relevant");
    expect(view.specOf("uid-1")).toBeUndefined();
  });

  test("is forgotten with the job", () => {
    const view = new JobView();
    view.put(aJob());
    view.remove("uid-1");
    expect(view.specOf("uid-1")).toBeUndefined();
  });

  test("is left out, the oldest first, when it is too much; a list has it again", () => {
    const view = new JobView({ mostKept: 20_000 });
    const jobs = ["a", "b", "c"].map((uid) => sends(`"${uid.repeat(8_000)}"`, { uid }));
    for (const job of jobs) view.put(job);
    expect(jobs.map(({ uid }) => view.specOf(uid) !== undefined)).toEqual([false, true, true]);
    const [a, b] = jobs;
    if (!a || !b) throw new Error("no jobs");
    expect(view.put(a, "listed")).toBe("irrelevant");
    view.lacksSpec("a");
    expect(view.put(b, "listed")).toBe("irrelevant");
    expect(view.put(a, "listed")).toBe("relevant");
    expect(view.specOf("a")).toBe(a.spec);
    expect(view.put(a, "listed")).toBe("irrelevant");
  });

  const long = "x".repeat(15_000);
  const mail = {
    kind: "email",
    to: "a@b.example",
    subject: "s",
    body: "b",
    isHtml: false,
  } as const;
  test.each<{ what: string; target: Target }>([
    { what: "a payload", target: { ...webhook, payload: `"${long}"` } },
    { what: "a header", target: { ...webhook, headers: { "X-Long": long } } },
    { what: "a mail's subject", target: { ...mail, subject: long } },
    { what: "a mail's body", target: { ...mail, body: long } },
  ])("counts towards what is too much, as $what", ({ target }) => {
    const view = new JobView({ mostKept: 20_000 });
    for (const uid of ["a", "b"]) view.put(aJob({ uid, spec: { target } }));
    expect(["a", "b"].map((uid) => view.specOf(uid)?.target)).toEqual([undefined, target]);
  });

  test("takes no memory once PostgreSQL has it, however many jobs there are", () => {
    const view = new JobView();
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 400; index += 1) {
      const job = sends(`"${String(index).padEnd(250_000)}"`, { uid: `uid-${index}` });
      view.put(job);
      view.setCursor(aCursor(job));
    }
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
    expect(view.entries.size).toBe(400);
  });
});
