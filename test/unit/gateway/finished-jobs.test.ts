import { describe, expect, test } from "vitest";
import type { Cursor } from "../../../src/domain/cursor.ts";
import { DAY } from "../../../src/domain/instant.ts";
import type { Job } from "../../../src/domain/job.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { FinishedJob } from "../../../src/domain/ports/run-history.ts";
import { revisionOf } from "../../../src/domain/revision.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { createFinishedJobs } from "../../../src/gateway/finished-jobs.ts";
import { newJobId, OUR_JOB_ID } from "../../../src/gateway/job-id.ts";
import { onceSpec } from "../../conformance/job-store.ts";

const NOW = Date.UTC(2026, 10, 24);
const OVER = onceSpec(NOW - 100 * DAY);

interface Both {
  job: Job;
  found: FinishedJob;
}

let serial = 0;
function finished(change: { job?: Partial<Job>; cursor?: Partial<Cursor> } = {}): Both {
  serial += 1;
  const uid = `uid-${String(serial).padStart(6, "0")}`;
  const account = `account-${serial % 3}`;
  const id = newJobId(NOW, Buffer.from(uid.slice(-10)));
  const job: Job = {
    uid,
    account,
    id,
    generation: 3,
    version: "1",
    createdAt: NOW - 101 * DAY,
    spec: OVER,
    owner: null,
    runNow: null,
    ...change.job,
  };
  const cursor: Cursor = {
    jobUid: uid,
    account,
    version: 2,
    position: NOW - 100 * DAY,
    scheduleHash: timingOf(OVER).hash,
    generation: 3,
    revision: revisionOf(job),
    startable: true,
    once: "completed",
    haltedGeneration: null,
    haltedAt: null,
    lastRunNow: null,
    deleted: false,
    ...change.cursor,
  };
  return { job, found: { account, jobId: id, cursor } };
}

/** A store and a ledger that contain just these jobs. */
function world(
  all: readonly Both[],
  options: {
    days?: number;
    deleting?: (job: Job) => Promise<boolean>;
    cancelling?: () => Promise<void>;
  } = {},
) {
  const kept = new Map(all.map(({ job, found }) => [found.jobId, job]));
  const cancelled: string[] = [];
  const removed: number[] = [];
  const asked: { before: number; jobIds: RegExp }[] = [];
  const finishedJobs = createFinishedJobs({
    jobs: {
      get: async (account, id) => {
        const job = kept.get(id);
        return job?.account === account ? job : undefined;
      },
      deleteUnchanged: async (job) => {
        const gone = await (options.deleting?.(job) ?? true);
        if (gone) kept.delete(job.id);
        return gone;
      },
    },
    history: {
      finished: async ({ before, jobIds, after = "", limit }) => {
        asked.push({ before, jobIds });
        const uids = all.map(({ found }) => found.cursor.jobUid);
        return uids.filter((uid) => uid > after).slice(0, limit);
      },
      finishedJob: async ({ jobUid }) =>
        all.find(({ found }) => found.cursor.jobUid === jobUid)?.found,
    },
    ledger: {
      cancel: async (gone, account) => {
        await options.cancelling?.();
        cancelled.push(...gone.map(({ uid }) => `${account} ${uid}`));
      },
    },
    clock: { known: true, now: () => NOW },
    days: options.days ?? 90,
    onRemoved: (count) => removed.push(count),
  });
  return {
    run: (signal: AbortSignal) => finishedJobs.run(signal),
    kept,
    cancelled,
    removed,
    asked,
  };
}

const forever = new AbortController().signal;
const never = () => Promise.reject(new Error("must not be deleted"));
const cancelOf = ({ job }: Both) => `${job.account} ${job.uid}`;

test.each(["completed", "failed", "missed"] as const)("a %s one-time goes", async (once) => {
  const over = finished({ cursor: { once } });
  const { run, kept, cancelled, removed, asked } = world([over]);
  await run(forever);
  expect(kept.size).toBe(0);
  expect(cancelled).toEqual([cancelOf(over)]);
  expect(removed).toEqual([1]);
  expect(asked[0]).toEqual({ before: NOW - 90 * DAY, jobIds: OUR_JOB_ID });
});

test("a one-time goes that is paused, or was asked to run, and the controller knows it", async () => {
  const suspend = onceSpec(NOW - 100 * DAY, { suspend: true });
  const { run, kept } = world([
    finished({ job: { spec: suspend } }),
    finished({ job: { runNow: "1" }, cursor: { lastRunNow: "1" } }),
  ]);
  await run(forever);
  expect(kept.size).toBe(0);
});

test("0 days keep them for ever", async () => {
  const { run, asked } = world([finished()], { days: 0, deleting: never });
  await run(forever);
  expect(asked).toEqual([]);
});

const cron = { kind: "cron", expression: "@daily", timeZone: "UTC" } as const;

describe("it stays", () => {
  test("a restored store has given its generation to something else", async () => {
    const revision = revisionOf({ generation: 3, spec: { ...OVER, name: "Another" } });
    const { run, kept } = world([finished({ cursor: { revision } })], { deleting: never });
    await run(forever);
    expect(kept.size).toBe(1);
  });

  test.each<{ why: string; job: Partial<Job> }>([
    { why: "a new time", job: { spec: onceSpec(NOW + DAY) } },
    { why: "a cron schedule by now", job: { spec: { ...OVER, schedule: cron } } },
    { why: "a change that the controller has not seen", job: { generation: 4 } },
    { why: "a run that the controller has not seen", job: { runNow: "2" } },
    { why: "another incarnation under its id", job: { uid: "another" } },
    { why: "another account's by now", job: { account: "another" } },
  ])("$why", async ({ job }) => {
    const { run, kept } = world([finished({ job })], { deleting: never });
    await run(forever);
    expect(kept.size).toBe(1);
  });

  test("the store does not delete it: then it is not cancelled either", async () => {
    const { run, cancelled, removed } = world([finished()], { deleting: async () => false });
    await run(forever);
    expect([...cancelled, ...removed]).toEqual([]);
  });
});

test("all go, and who reads the log sees how far it is", async () => {
  const all = Array.from({ length: 2_001 }, () => finished());
  const { run, cancelled, removed } = world(all);
  await run(forever);
  expect(cancelled).toEqual(all.map(cancelOf));
  expect(removed).toEqual([1_000, 1_000, 1]);
});

test("some that cannot be deleted do not keep the others; the first is told of in the end", async () => {
  const all = Array.from({ length: 30 }, () => finished());
  const { run, cancelled } = world(all, {
    deleting: async (job) => {
      if (job.account === "account-0") throw new Error(`denied: ${job.uid}`);
      return true;
    },
  });
  const denied = all.find(({ job }) => job.account === "account-0");
  await expect(run(forever)).rejects.toThrow(`denied: ${denied?.job.uid}`);
  expect(cancelled).toHaveLength(20);
});

test("an account whose jobs cannot be deleted is asked ten times, however many it has of them", async () => {
  const others = [finished(), finished()];
  const stuck = Array.from({ length: 30 }, () => finished());
  let tries = 0;
  const all = [...stuck, ...others].map(({ job, found }, index) => {
    const account = index < 30 ? "stuck" : "other";
    return { job: { ...job, account }, found: { ...found, account } };
  });
  const { run, kept } = world(all, {
    deleting: async ({ account }) => {
      if (account !== "stuck") return true;
      tries += 1;
      throw new Error("denied");
    },
  });
  await expect(run(forever)).rejects.toThrow("denied");
  expect(tries).toBe(10);
  expect(kept.size).toBe(30);
});

test("a store or a database that is away ends it", async () => {
  const all = Array.from({ length: 30 }, () => finished());
  let tries = 0;
  const store = world(all, {
    deleting: () => {
      tries += 1;
      return Promise.reject(new DependencyUnavailable("kubernetes"));
    },
  });
  await expect(store.run(forever)).rejects.toThrow(DependencyUnavailable);
  expect(tries).toBe(10);
  const database = world(all, {
    cancelling: () => Promise.reject(new DependencyUnavailable("postgres")),
  });
  await expect(database.run(forever)).rejects.toThrow(DependencyUnavailable);
  expect(database.kept.size).toBe(20);
});

test("what is away now and then keeps none of the others", async () => {
  const all = Array.from({ length: 40 }, () => finished());
  let tries = 0;
  const { run, kept } = world(all, {
    deleting: async () => {
      tries += 1;
      if (tries % 2 === 0) throw new DependencyUnavailable("kubernetes");
      return true;
    },
  });
  await expect(run(forever)).rejects.toThrow(DependencyUnavailable);
  expect(kept.size).toBe(20);
});

test("the end of the process ends it after the job in hand", async () => {
  const end = new AbortController();
  const all = [finished(), finished()];
  const { run, cancelled, removed } = world(all, {
    deleting: async () => {
      end.abort();
      return true;
    },
  });
  await run(end.signal);
  expect(cancelled).toEqual(all.slice(0, 1).map(cancelOf));
  expect(removed).toEqual([1]);
});
