import { beforeAll, describe, expect, test } from "vitest";
import type { Job } from "../../../src/domain/job.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import {
  change,
  cursorOf,
  job,
  retry,
  runsFixture,
  scheduled,
  startedRun,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

interface Row {
  table: "runs" | "job_cursors";
  id: string;
}

const run = (id: string): Row => ({ table: "runs", id });
const cursor = (id: string): Row => ({ table: "job_cursors", id });

/** Whether `act`, while it waits for the first row, has not locked the second. */
async function leavesSecond(
  [first, second]: readonly [Row, Row],
  act: () => Promise<unknown>,
): Promise<boolean> {
  const lock = ({ table }: Row) =>
    `select from ${table} where ${table === "runs" ? "id" : "job_uid"} = $1 for update`;
  const holder = await openTransaction(fixture.pool, lock(first), [first.id]);
  const acting = act();
  await untilLockWaits(fixture.pool);
  const { rowCount } = await holder.client.query(`${lock(second)} skip locked`, [second.id]);
  await holder.commit();
  await acting;
  return rowCount === 1;
}

describe("runs are locked in the order of their ids, whatever is done to them: they are", () => {
  const acts: { what: string; act: (runs: ClaimedRun[]) => Promise<unknown> }[] = [
    { what: "started", act: (runs) => fixture.queue.start(runs) },
    { what: "given back", act: (runs) => fixture.queue.release(runs) },
    { what: "closed", act: (runs) => fixture.queue.close(runs.map((run) => success(run))) },
    {
      what: "tried again",
      act: (runs) => fixture.queue.close(runs.map((run) => retry(run, Date.now()))),
    },
    {
      what: "cancelled",
      act: (runs) => fixture.cancel(runs.slice(1).map(({ jobUid: uid }) => ({ uid }))),
    },
  ];
  test.each(acts)("$what", async ({ act }) => {
    const of = job();
    const now = Date.now();
    await fixture.apply(of, { create: [scheduled(now - 1), scheduled(now - 2)] });
    const request = { worker: "w", limit: 2, until: now, leaseMs: 30_000 };
    const runs = (await fixture.queue.claim(request)).toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const [last, first] = runs;
    if (last === undefined || first === undefined) throw new Error("not claimed");
    expect(await leavesSecond([run(first.id), run(last.id)], () => act(runs))).toBe(true);
    await fixture.cancel([of]);
    await fixture.pool.query("delete from runs");
  });
});

test("cursors are locked in the order of their jobs' uids", async () => {
  const jobs = [job(), job()].toSorted((a, b) => (a.uid < b.uid ? 1 : -1));
  const [last, first] = jobs;
  if (last === undefined || first === undefined) throw new Error("two jobs");
  const now = Date.now();
  // The runs are created, and so have their ids, in the other order.
  for (const of of jobs) await fixture.ledger.apply([change(of, { create: [scheduled(now - 1)] })]);
  const runs = await fixture.queue.claim({ worker: "w", limit: 2, until: now, leaseMs: 30_000 });
  expect(runs.map(({ jobUid }) => jobUid)).toEqual(jobs.map(({ uid }) => uid));
  await fixture.queue.start(runs);
  const again = await Promise.all(
    jobs.map(async (of) => change(of, { from: await cursorOf(fixture.ledger, of) })),
  );
  for (const act of [
    () => fixture.queue.close(runs.map((each) => success(each))),
    () => fixture.ledger.apply(again),
    () => fixture.cancel(jobs),
  ])
    expect(await leavesSecond([cursor(first.uid), cursor(last.uid)], act)).toBe(true);
});

describe("runs are locked before the cursors of their jobs:", () => {
  const acts: {
    what: string;
    act: (of: Job, attempt: ClaimedRun) => Promise<() => Promise<unknown>>;
  }[] = [
    {
      what: "one that is closed",
      act: (_, attempt) => Promise.resolve(() => fixture.queue.close([success(attempt)])),
    },
    {
      what: "one that another takes the place of",
      act: async (of, { id }) => {
        const from = await cursorOf(fixture.ledger, of);
        return () => fixture.ledger.apply([change(of, { from, replace: [id] })]);
      },
    },
    {
      what: "one that is to be created anew",
      act: async (of, { scheduledAt }) => {
        const from = await cursorOf(fixture.ledger, of);
        const edited = { ...of, generation: 2 };
        return () =>
          fixture.ledger.apply([change(edited, { from, create: [scheduled(scheduledAt)] })]);
      },
    },
  ];
  test.each(acts)("$what", async ({ act }) => {
    const of = job();
    const attempt = await startedRun(fixture, of);
    const acting = await act(of, attempt);
    expect(await leavesSecond([run(attempt.id), cursor(of.uid)], acting)).toBe(true);
    await fixture.queue.close([success(attempt)]);
  });
});
