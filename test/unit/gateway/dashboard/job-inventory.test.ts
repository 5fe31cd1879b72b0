import { expect, test } from "vitest";
import type { StatusCursor } from "../../../../src/domain/job-status.ts";
import type { ListedJob } from "../../../../src/domain/listed-job.ts";
import { timingOf } from "../../../../src/domain/timing.ts";
import { createJobInventory } from "../../../../src/gateway/dashboard/job-inventory.ts";
import { collectGarbage } from "../../../collect-garbage.ts";

const LOOKS = 64;
const TEXT = 1_000_000;
const HASH = 32;

function jobOf(n: number): ListedJob {
  return {
    uid: `uid-${n}`,
    account: "account",
    id: `job-${n}`,
    generation: 1,
    createdAt: n,
    owner: null,
    spec: { name: `job ${n}`, schedule: { kind: "once", at: 1_000 }, suspend: false },
    kind: "webhook",
    address: "https://example.com/",
  };
}

test("what is kept of a job does not keep the text that its cursor came in", async () => {
  const all = Array.from({ length: LOOKS }, (_, n) => jobOf(n));
  let looks = 0;
  // At each look another job has fired. The cursors are parts of one text, as they are in PostgreSQL's answer.
  const fired = new Map<string, number>();
  const inventory = createJobInventory({
    jobIndex: { jobs: async () => all },
    statistics: {
      statusCursors: async () => {
        const text = Buffer.alloc(TEXT, "a").toString();
        fired.set(`uid-${looks}`, looks);
        looks += 1;
        return new Map(
          Array.from(fired, ([uid, at]): [string, StatusCursor] => [
            uid,
            { once: "fired", scheduleHash: text.slice(at, at + HASH), haltedGeneration: null },
          ]),
        );
      },
    },
  });
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < LOOKS; n += 1) await inventory("account", 0);
  collectGarbage();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan((LOOKS * TEXT) / 8);
  expect(await inventory("account", 0)).toHaveLength(LOOKS);
});

test("what is kept of a job is computed anew when its cursor changes in any of its parts", async () => {
  const job = jobOf(1);
  const { hash } = timingOf(job.spec);
  const armed: StatusCursor = { once: "armed", scheduleHash: hash, haltedGeneration: null };
  let cursor = armed;
  const inventory = createJobInventory({
    jobIndex: { jobs: async () => [job] },
    statistics: { statusCursors: async () => new Map([[job.uid, cursor]]) },
  });
  const statuses: (string | undefined)[] = [];
  for (const next of [
    armed,
    { ...armed, haltedGeneration: 1 },
    armed,
    { ...armed, once: "completed" },
    // The cursor of another time, as before an edit.
    { ...armed, once: "completed", scheduleHash: "another" },
  ] satisfies StatusCursor[]) {
    cursor = next;
    statuses.push((await inventory("account", 0))[0]?.status);
  }
  expect(statuses).toEqual(["active", "paused", "active", "completed", "active"]);
});

test("a job whose next run has come has another one", async () => {
  const schedule = { kind: "cron", expression: "* * * * *", timeZone: "UTC" } as const;
  const job: ListedJob = { ...jobOf(1), spec: { ...jobOf(1).spec, schedule } };
  const inventory = createJobInventory({
    jobIndex: { jobs: async () => [job] },
    statistics: { statusCursors: async () => new Map<string, StatusCursor>() },
  });
  const nextRuns: (number | null | undefined)[] = [];
  for (const now of [1, 59_999, 60_000, 60_001])
    nextRuns.push((await inventory("account", now))[0]?.nextRunAt);
  expect(nextRuns).toEqual([60_000, 60_000, 120_000, 120_000]);
});
