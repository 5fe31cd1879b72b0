import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import { until } from "../../until.ts";
import {
  change,
  cursorOf,
  job,
  retry,
  runsFixture,
  scheduled,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
});
afterAll(async () => {
  await fixture?.close();
});

/** Whether `act`, which waits for the first of the rows, leaves the second alone meanwhile. */
async function leavesSecond(
  table: { name: "runs" | "job_cursors"; key: "id" | "job_uid" },
  [first, second]: readonly [string, string],
  act: () => Promise<unknown>,
): Promise<boolean> {
  const lock = `select from ${table.name} where ${table.key} = $1 for update`;
  const holder = await fixture.pool.connect();
  await holder.query("begin");
  await holder.query(lock, [first]);
  const acting = act();
  await until("somebody waits", async () => {
    const { rowCount } = await fixture.pool.query(
      `select from pg_stat_activity
        where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
    );
    return rowCount === 1;
  });
  const { rowCount } = await holder.query(`${lock} skip locked`, [second]);
  await holder.query("commit");
  holder.release();
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
      act: (runs) => fixture.ledger.cancel(runs.slice(1).map(({ jobUid }) => jobUid)),
    },
  ];
  test.each(acts)("$what", async ({ act }) => {
    const of = job();
    const now = Date.now();
    await fixture.ledger.apply([change(of, { create: [scheduled(now - 1), scheduled(now - 2)] })]);
    const request = { worker: "w", limit: 2, until: now, leaseMs: 30_000 };
    const runs = (await fixture.queue.claim(request)).toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const [last, first] = runs;
    if (last === undefined || first === undefined) throw new Error("not claimed");
    expect(
      await leavesSecond({ name: "runs", key: "id" }, [first.id, last.id], () => act(runs)),
    ).toBe(true);
    await fixture.ledger.cancel([of.uid]);
    await fixture.pool.query("delete from runs");
  });
});

test("cursors are locked in the order of their jobs' uids", async () => {
  const jobs = [job(), job()].toSorted((a, b) => (a.uid < b.uid ? 1 : -1));
  const [last, first] = jobs;
  if (last === undefined || first === undefined) throw new Error("two jobs");
  await fixture.ledger.apply(jobs.map((of) => change(of)));
  const again = await Promise.all(
    jobs.map(async (of) => change(of, { from: await cursorOf(fixture.ledger, of) })),
  );
  for (const act of [
    () => fixture.ledger.apply(again),
    () => fixture.ledger.cancel(jobs.map(({ uid }) => uid)),
  ])
    expect(
      await leavesSecond({ name: "job_cursors", key: "job_uid" }, [first.uid, last.uid], act),
    ).toBe(true);
});
