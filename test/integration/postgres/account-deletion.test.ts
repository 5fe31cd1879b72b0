import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { InvalidInput } from "../../../src/domain/findings.ts";
import { createAccounts } from "../../../src/postgres/accounts.ts";
import { cancelAccountRuns } from "../../../src/postgres/cancel-account-runs.ts";
import { transaction, type Queryable } from "../../../src/postgres/pool.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { cronSpec } from "../../conformance/job-store.ts";
import {
  asLast,
  change,
  cursorOf,
  decisionOf,
  failure,
  job,
  runsFixture,
  scheduled,
  startedRun,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";
import { untilLockWaits } from "../../postgres/lock-waits.ts";
import { openTransaction } from "../../postgres/open-transaction.ts";
import { unfinishedRuns } from "../../postgres/unfinished-runs.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});

test("a deleted account's jobs go with their runs, and those of its jobs in Kubernetes; other accounts' stay", async () => {
  const { pool, ledger } = fixture;
  const notifications = createNotifications({ url: fixture.url, applicationName: "test" });
  const jobs = createPostgresJobStore({ pool, notifications, timers });
  const accounts = createAccounts({ pool, onDelete: cancelAccountRuns });
  const [gone, kept] = [
    await accounts.create({ name: "gone" }),
    await accounts.create({ name: "kept" }),
  ];
  const spec = cronSpec();
  const made = await jobs.create({ account: gone.id, id: "job-1", spec });
  const applied = job({ account: gone.id, id: "nightly" });
  const others = await jobs.create({ account: kept.id, id: "job-1", spec });
  const { position } = await jobs.list({ limit: 10 });
  await ledger.apply(
    [made, applied, others].map((of) => change(of, { create: [scheduled(Date.now() + 60_000)] })),
  );
  await accounts.delete(gone.id);
  const left = (await jobs.list({ limit: 10 })).jobs.map(({ uid }) => uid);
  expect(left).toEqual([others.uid]);
  // The controller is told.
  const stop = new AbortController();
  let deleted: string | undefined;
  for await (const event of jobs.watch(position, stop.signal)) {
    if (event.type !== "deleted") continue;
    deleted = event.uid;
    stop.abort();
    break;
  }
  expect(deleted).toBe(made.uid);
  const unfinished = await unfinishedRuns(fixture.pool, made.uid, applied.uid, others.uid);
  expect(unfinished.map(({ jobUid }) => jobUid)).toEqual([others.uid]);
  await notifications.close();
});

test("who was let in just before makes no job of a deleted account, and does not hold up those of others", async () => {
  const { pool } = fixture;
  const notifications = createNotifications({ url: fixture.url, applicationName: "test" });
  const jobs = createPostgresJobStore({ pool, notifications, timers });
  const accounts = createAccounts({ pool, onDelete: cancelAccountRuns });
  const [gone, kept] = [
    await accounts.create({ name: "gone by then" }),
    await accounts.create({ name: "still there" }),
  ];
  await accounts.delete(gone.id);
  const made = await Promise.allSettled(
    [gone, kept].map(({ id: account }) => jobs.create({ account, id: "job-1", spec: cronSpec() })),
  );
  expect(made).toMatchObject([
    { status: "rejected", reason: expect.any(InvalidInput) as unknown },
    { status: "fulfilled" },
  ]);
  await accounts.delete(kept.id);
  await notifications.close();
});

test("its jobs are looked up by key where there are many more than go at a time, as statistics tell", async () => {
  const { pool } = fixture;
  const { id: account } = await createAccounts({ pool }).create({ name: "well known" });
  await pool.query(
    `insert into job_cursors (job_uid, account, job_id, position, schedule_hash, generation, startable, once)
     select gen_random_uuid(), $1, 'job-' || n, now(), 'h', 1, true, 'armed' from generate_series(1, 20000) as n`,
    [account],
  );
  await pool.query(
    `insert into jobs (account, id, spec)
     select $1, 'job-' || n, '{}'::jsonb from generate_series(1, 20000) as n`,
    [account],
  );
  await pool.query("analyze jobs, job_cursors");
  const joins: string[] = [];
  await transaction(pool, async (client) => {
    const query = async (text: string, values?: unknown[]) => {
      if (values !== undefined) {
        const { rows } = await client.query<{ "QUERY PLAN": string }>(`explain ${text}`, values);
        joins.push(
          ...rows.map((row) => row["QUERY PLAN"]).filter((line) => /Join Filter: .*uid/.test(line)),
        );
      }
      return client.query(text, values);
    };
    await cancelAccountRuns({ query } as Queryable, account);
  });
  // Such a join would compare each row with each row of the page.
  expect(joins).toEqual([]);
  for (const table of ["jobs", "job_cursors"])
    await pool.query(`delete from ${table} where account = $1`, [account]);
});

test("no statement drops the runs of many jobs: behind an open circuit each may have thousands", async () => {
  const { pool } = fixture;
  const [account, runsEach] = [randomUUID(), 3];
  await pool.query(
    `with made as (
       insert into job_cursors (job_uid, account, job_id, position, schedule_hash, generation, startable, once)
       select gen_random_uuid(), $1, 'job-' || n, now(), '', 1, true, 'armed' from generate_series(1, 50) n
       returning job_uid, job_id
     )
     insert into runs (job_uid, account, job_id, generation, trigger, key, scheduled_at, not_before, destination)
     select job_uid, $1, job_id, 1, 'schedule', n, now() - n * interval '1 minute', now(), 'd'
       from made, generate_series(1, $2) n`,
    [account, runsEach],
  );
  const dropped: number[] = [];
  await transaction(pool, async (client) => {
    const count = async (): Promise<number> => {
      const { rows } = await client.query<{ count: number }>(
        "select count(*)::int as count from runs where account = $1",
        [account],
      );
      return rows[0]?.count ?? 0;
    };
    const query = async (text: string, values?: unknown[]) => {
      const before = await count();
      const result = await client.query(text, values);
      dropped.push(before - (await count()));
      return result;
    };
    await cancelAccountRuns({ query } as Queryable, account);
  });
  expect(dropped.filter((count) => count > 0)).toEqual([20, 20, 10].map((jobs) => jobs * runsEach));
  for (const table of ["job_cursors", "missed_spans"])
    await pool.query(`delete from ${table} where account = $1`, [account]);
});

test("an account with more jobs than a statement has time for is deleted page by page", async () => {
  const { pool, ledger } = fixture;
  let most = 0;
  const accounts = createAccounts({
    pool,
    onDelete: (client, account) => {
      const written = async (): Promise<number> => {
        const { rows } = await client.query<{ rows: number }>(
          `select sum(n_tup_upd)::int as rows from pg_stat_xact_user_tables
            where relname in ('jobs', 'job_cursors')`,
        );
        return rows[0]?.rows ?? 0;
      };
      const query = async (text: string, values?: unknown[]) => {
        const before = await written();
        const result = await client.query(text, values);
        most = Math.max(most, (await written()) - before);
        return result;
      };
      return cancelAccountRuns({ query } as Queryable, account, 2);
    },
  });
  const { id: account } = await accounts.create({ name: "large" });
  const spec = cronSpec();
  const ids = ["job-1", "job-2", "job-3", "job-3", "job-3", "job-4", "job-5", "nightly"];
  const made = ids.map((id) => job({ account, id, spec }));
  await pool.query(
    `insert into jobs (account, id, spec)
     select $1, id, $3::jsonb from (select distinct unnest($2::text[]) as id) as ids`,
    [account, ids, JSON.stringify(spec)],
  );
  const at = Date.now() - 1_000;
  await ledger.apply(made.map((of) => change(of, { create: [scheduled(at)] })));
  await accounts.delete(account);
  expect(most).toBe(2);
  const { rows: left } = await pool.query(
    "delete from jobs where account = $1 and deleted_at is null returning id",
    [account],
  );
  expect(left).toEqual([]);
  for (const of of made) {
    expect(await cursorOf(ledger, of)).toMatchObject({ startable: false, version: 2 });
    expect(await fixture.missedOf(of)).toEqual([{ reason: "account_deleted", count: 1 }]);
  }
});

test("cursors are locked in the order in which a leader locks them, page by page", async () => {
  const { pool, ledger } = fixture;
  let begun = 0;
  const accounts = createAccounts({
    pool,
    onDelete: async (client, account) => {
      begun += 1;
      await cancelAccountRuns(client, account, 1);
    },
  });
  const { id: account } = await accounts.create({ name: "in use" });
  const [lower, higher] = [crypto.randomUUID(), crypto.randomUUID()].toSorted() as [string, string];
  const first = job({ account, uid: lower, id: "job-2" });
  const second = job({ account, uid: higher, id: "job-1" });
  await ledger.apply([change(first), change(second)]);
  const lock = "select from job_cursors where job_uid = $1 for update";
  const leader = await openTransaction(pool, lock, [first.uid]);
  const deleted = accounts.delete(account);
  await untilLockWaits(pool);
  await leader.client.query(lock, [second.uid]);
  await leader.commit();
  await deleted;
  expect(begun).toBe(1);
  for (const of of [first, second])
    expect(await cursorOf(ledger, of)).toMatchObject({ startable: false });
});

test("of jobs that were deleted before, which may be a million, nothing is written", async () => {
  const { ledger } = fixture;
  const accounts = createAccounts({ pool: fixture.pool, onDelete: cancelAccountRuns });
  const { id: account } = await accounts.create({ name: "busy" });
  const [deleted, live] = [job({ account }), job({ account })];
  await ledger.apply([change(deleted), change(live)]);
  await ledger.cancel([deleted], deleted.account ?? "");
  const before = await cursorOf(ledger, deleted);
  await accounts.delete(account);
  expect(await cursorOf(ledger, deleted)).toEqual(before);
  expect(await cursorOf(ledger, live)).toMatchObject({ startable: false, version: 2 });
});

test("a namespace leaves its account: what was asked for by hand after a pause is recorded, not forgotten", async () => {
  const { pool, ledger } = fixture;
  const of = job();
  const account = of.account;
  const paused = { startable: false, position: Date.now() - 60_000 };
  await ledger.apply([change(of, { to: paused })]);
  await ledger.runNow(of, "by hand");
  const from = await cursorOf(ledger, of);
  await ledger.apply([change({ ...of, account: null }, { from, to: paused })]);
  expect(await unfinishedRuns(pool, of.uid)).toEqual([]);
  const { rows } = await pool.query(
    "select account, count, reason from missed_spans where job_uid = $1",
    [of.uid],
  );
  expect(rows).toEqual([{ account, count: 1, reason: "account_deleted" }]);
});

test("a namespace gets another account at once: a run by hand waits for the leader to see it, and is the new one's", async () => {
  const { pool, ledger, queue } = fixture;
  const accounts = createAccounts({ pool, onDelete: cancelAccountRuns });
  const before = await accounts.create({ name: "before", namespace: "team" });
  const paused = job({ account: before.id, spec: cronSpec({ suspend: true }) });
  await ledger.apply([change(paused, { to: { startable: false } })]);
  await accounts.delete(before.id);
  const after = await accounts.create({ name: "after", namespace: "team" });
  const of = { ...paused, account: after.id };
  expect(await ledger.runNow(of, "k")).toBe(false);
  const decision = await decisionOf(ledger, of);
  if (decision === undefined) throw new Error("nothing to apply");
  await ledger.apply([decision]);
  expect(await ledger.runNow(of, "k")).toBe(true);
  const until = Date.now() + 1_000;
  const runs = await queue.claim({ worker: "w", limit: 9, until, leaseMs: 9_000 });
  const run = runs.find(({ jobUid }) => jobUid === of.uid);
  if (run === undefined) throw new Error("no run");
  expect(run.account).toBe(after.id);
  expect(await queue.start([run])).toEqual(new Set([run.id]));
});

test.each([
  { when: "at once", between: [] },
  { when: "after a while without one", between: [null] },
])(
  "a namespace gets another account $when: what became of its jobs' runs before is not that one's to see",
  async ({ when, between }) => {
    const { pool, ledger, history, queue } = fixture;
    // Those that other tests have left.
    await pool.query("delete from runs");
    const accounts = createAccounts({ pool, onDelete: cancelAccountRuns });
    const namespace = `moves-${when.replaceAll(" ", "-")}`;
    const before = await accounts.create({ name: `before ${when}`, namespace });
    const theirs = job({ account: before.id });
    await queue.close([failure(await startedRun(fixture, theirs))]);
    const underWay = await startedRun(fixture, theirs, { at: Date.now() - 10 });
    await accounts.delete(before.id);
    const after = await accounts.create({ name: `after ${when}`, namespace });
    const of = { ...theirs, account: after.id };
    const last = async () => (await history.summary([of.uid])).get(of.uid)?.last;
    for (const account of [...between, after.id]) {
      const decision = await decisionOf(ledger, { ...of, account });
      if (decision === undefined) throw new Error("nothing to apply");
      await ledger.apply([decision]);
    }
    expect(await last()).toBeNull();
    await queue.close([failure(underWay)]);
    expect(await last()).toBeNull();
    expect(await fixture.executionsOf(theirs)).toHaveLength(2);
    await queue.close([success(await startedRun(fixture, of, { at: Date.now() - 1 }))]);
    const [own, ...others] = await fixture.executionsOf(of);
    expect(others).toEqual([]);
    expect(await last()).toEqual(asLast(own));
  },
);

test("a namespace is without its account for a while: what became of its jobs' runs is there again", async () => {
  const { pool, ledger, history, queue } = fixture;
  await pool.query("delete from runs");
  const of = job();
  await queue.close([failure(await startedRun(fixture, of))]);
  for (const account of [null, of.account]) {
    const from = await cursorOf(ledger, of);
    await ledger.apply([change({ ...of, account }, { from })]);
  }
  const [last] = await fixture.executionsOf(of);
  expect((await history.summary([of.uid])).get(of.uid)?.last).toEqual(asLast(last));
});
