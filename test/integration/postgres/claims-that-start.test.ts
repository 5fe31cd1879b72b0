import { randomUUID } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { destinationKey } from "../../../src/domain/destination.ts";
import type { Job, Target } from "../../../src/domain/job.ts";
import { DependencyUnavailable } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { LedgerChange } from "../../../src/domain/ports/run-ledger.ts";
import type { ClaimedRun } from "../../../src/domain/run.ts";
import {
  job,
  lockedRunsOf,
  runsFixture,
  scheduled,
  spec,
  success,
  type RunsFixture,
} from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
});
afterEach(async () => {
  await fixture.pool.query("delete from runs");
});

const DUE = -50;
const HOOK: Target = {
  kind: "webhook",
  url: "http://a.example/",
  payload: "{}",
  headers: {},
  headersFrom: [],
  timeoutSeconds: 30,
};
const MAIL: Target = { kind: "email", to: "a@b.example", subject: "S", body: "B", isHtml: false };

async function create(of: Job, at: number, meanwhile?: Partial<LedgerChange["to"]>): Promise<void> {
  await fixture.apply(of, { create: [scheduled(Date.now() + at)] });
  if (meanwhile === undefined) return;
  // As if the cursor had been written while the claim was under way: the run still exists.
  const runs = await fixture.pool.query("select * from runs where job_uid = $1", [of.uid]);
  await fixture.apply(of, { to: meanwhile });
  await fixture.pool.query(
    "insert into runs select * from json_populate_recordset(null::runs, $1)",
    [JSON.stringify(runs.rows.map((row) => ({ ...row, ...iso(row) })))],
  );
}

/** Moments are read as numbers, and must be written as text. */
function iso(row: Record<string, unknown>): Record<string, string> {
  const moments = ["scheduled_at", "not_before", "created_at"];
  return Object.fromEntries(
    moments.map((name) => [name, new Date(Number(row[name])).toISOString()]),
  );
}

async function claim(
  start: { exceptDestinations: readonly string[] } | undefined,
  token = randomUUID(),
): Promise<ClaimedRun[]> {
  return fixture.queue.claim({
    worker: "w1",
    limit: 100,
    until: Date.now() + 60_000,
    leaseMs: 30_000,
    token,
    start,
  });
}

const startedAt = async (of: Job) => {
  const { rows } = await fixture.pool.query<{ started_at: number | null }>(
    "select started_at from runs where job_uid = $1",
    [of.uid],
  );
  return rows[0]?.started_at;
};

describe("a claim that starts what it can", () => {
  test.each<{
    title: string;
    at?: number;
    target?: Target;
    /** Claimed so many seconds before its time. */
    prepared?: number;
    except?: boolean;
    deadline?: number;
    meanwhile?: Partial<LedgerChange["to"]>;
    starts: boolean;
  }>([
    { title: "a webhook that is due", starts: true },
    { title: "one that is not due yet", at: 30_000, starts: false },
    { title: "a mail, which waits for a connection", target: MAIL, starts: false },
    { title: "one to a destination that is excepted", except: true, starts: false },
    { title: "one that was prepared, and is due since a moment", prepared: 10, starts: true },
    {
      title: "one that was prepared, and may be beyond its starting deadline",
      at: -1_500,
      prepared: 10,
      deadline: 30,
      starts: false,
    },
    {
      title: "one that was prepared, is late, and has none",
      at: -1_500,
      prepared: 10,
      starts: true,
    },
    { title: "one that was created late", at: -60_000, starts: true },
    { title: "one of a paused job", meanwhile: { startable: false }, starts: false },
    { title: "one of a deleted job", meanwhile: { deleted: true }, starts: false },
    { title: "one of an older generation", meanwhile: { generation: 2 }, starts: false },
  ])(
    "$title",
    async ({ at = DUE, target, prepared, except, deadline = null, meanwhile, starts }) => {
      const of = job({
        spec: spec({ startingDeadlineSeconds: deadline, ...(target ? { target } : {}) }),
      });
      await create(of, at, meanwhile);
      if (prepared !== undefined)
        await fixture.pool.query(
          "update runs set created_at = scheduled_at - $1 * interval '1 second'",
          [prepared],
        );
      const exceptDestinations = except ? [destinationKey(of.account ?? "", of.spec.target)] : [];
      const [run, ...others] = await claim({ exceptDestinations });
      expect(others).toEqual([]);
      expect(run).toMatchObject({ jobUid: of.uid, started: starts });
      expect((await startedAt(of)) !== null).toBe(starts);
    },
  );

  test("of an account that was deleted does not start", async () => {
    const of = job();
    await fixture.pool.query("insert into accounts (id, name, deleted_at) values ($1, $2, now())", [
      of.account,
      of.id,
    ]);
    await create(of, DUE);
    expect(await claim({ exceptDestinations: [] })).toMatchObject([{ started: false }]);
  });

  test("one with NUL in its spec, which a resource may have, does not hold up the others", async () => {
    const headersFrom = [{ header: "X-Token", secretName: "a\0\0b", secretKey: "\\u0000\\\0" }];
    const target = { ...HOOK, headersFrom };
    const nul = job({ spec: spec({ target }) });
    const sound = job();
    for (const of of [nul, sound]) await create(of, -1_500);
    await fixture.pool.query("update runs set created_at = scheduled_at - interval '10 seconds'");
    const runs = await claim({ exceptDestinations: [] });
    expect(new Set(runs.map(({ jobUid }) => jobUid))).toEqual(new Set([nul.uid, sound.uid]));
    const [run] = runs.filter(({ jobUid }) => jobUid === nul.uid);
    expect(run?.spec.target).toEqual({
      ...target,
      headersFrom: [
        { header: "X-Token", secretName: "a\ufffd\ufffdb", secretKey: "\\u0000\\\ufffd" },
      ],
    });
  });

  test("what it could not start is judged by the start, and what it did is closed as any other", async () => {
    const [paused, sound] = [job(), job()];
    await create(paused, DUE, { startable: false });
    await create(sound, DUE);
    const runs = await claim({ exceptDestinations: [] });
    const [run] = runs.filter(({ started }) => started);
    expect(run).toMatchObject({ jobUid: sound.uid });
    expect(await fixture.queue.start(runs.filter(({ started }) => !started))).toEqual(new Set());
    expect(await fixture.runsOf(paused)).toEqual([]);
    expect(await fixture.queue.close(run ? [success(run)] : [])).toEqual(new Set([run?.id]));
    expect(await fixture.runsOf(sound)).toEqual([]);
  });

  test("starts nothing when it is not asked to", async () => {
    const of = job();
    await create(of, DUE);
    expect(await claim(undefined)).toMatchObject([{ started: false }]);
    expect(await startedAt(of)).toBeNull();
  });

  test("one that was given back after it had started is claimed and started again", async () => {
    const of = job();
    await create(of, DUE);
    const [run] = await claim({ exceptDestinations: [] });
    if (run) await fixture.queue.release([run]);
    expect(await startedAt(of)).toBeNull();
    expect(await claim({ exceptDestinations: [] })).toMatchObject([{ id: run?.id, started: true }]);
  });
});

test("a claim that PostgreSQL takes up too late takes nothing, and says so", async () => {
  const of = job();
  await create(of, DUE);
  const request = { worker: "w1", limit: 10, until: Date.now(), leaseMs: 30_000 };
  const late = fixture.queue.claim({ ...request, before: Date.now() - 1_000 });
  await expect(late).rejects.toThrow(DependencyUnavailable);
  // Also if there were nothing to claim.
  const nobody = fixture.queue.claim({ ...request, until: 0, before: Date.now() - 1_000 });
  await expect(nobody).rejects.toThrow(DependencyUnavailable);
  expect(await fixture.runsOf(of)).toMatchObject([{ state: "queued" }]);
  expect(await fixture.queue.claim({ ...request, before: Date.now() + 60_000 })).toHaveLength(1);
});

describe("a claim without an answer", () => {
  test("is undone, what it has started as well, and nobody else's", async () => {
    const [started, ahead, others] = [job(), job(), job()];
    await create(others, DUE);
    const [theirs] = await claim({ exceptDestinations: [] });
    await create(started, DUE);
    await create(ahead, 30_000);
    const token = randomUUID();
    expect(await claim({ exceptDestinations: [] }, token)).toHaveLength(2);
    await fixture.queue.unclaim([token]);
    for (const of of [started, ahead])
      expect(await fixture.runsOf(of)).toMatchObject([{ state: "queued", attempts: 0 }]);
    expect(await fixture.runsOf(others)).toMatchObject([{ id: theirs?.id, state: "started" }]);
    expect(await claim({ exceptDestinations: [] })).toHaveLength(2);
    // A later claim keeps them.
    await fixture.queue.unclaim([token]);
    expect(await fixture.runsOf(started)).toMatchObject([{ state: "started" }]);
  });

  test("is undone for now without what somebody has locked, for which nobody waits", async () => {
    const [locked, free] = [job(), job()];
    for (const of of [locked, free]) await create(of, DUE);
    const token = randomUUID();
    await claim({ exceptDestinations: [] }, token);
    const holder = await lockedRunsOf(fixture, locked);
    await fixture.queue.unclaim([token]);
    expect(await fixture.runsOf(free)).toMatchObject([{ state: "queued" }]);
    expect(await fixture.runsOf(locked)).toMatchObject([{ state: "started" }]);
    await holder.rollback();
    await fixture.queue.unclaim([token]);
    expect(await fixture.runsOf(locked)).toMatchObject([{ state: "queued" }]);
  });

  test("tells the workers of what it gives back", async () => {
    const of = job();
    await create(of, DUE);
    const token = randomUUID();
    await claim({ exceptDestinations: [] }, token);
    const woken = Promise.withResolvers<number>();
    // A listener gets null when it begins to listen.
    const listens = Promise.withResolvers<undefined>();
    const stop = fixture.anotherQueue().onWake((since) => {
      if (since === null) listens.resolve(undefined);
      else woken.resolve(since);
    });
    await listens.promise;
    await fixture.queue.unclaim([token]);
    const [run] = await fixture.runsOf(of);
    expect(await woken.promise).toBe(run?.scheduledAt);
    stop();
  });
});
