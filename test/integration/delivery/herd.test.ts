import { beforeAll, expect, test } from "vitest";
import { until } from "../../until.ts";
import { change, scheduled } from "../postgres/runs-fixture.ts";
import { startReceiver } from "../../receiver.ts";
import { SECRET, webhookJob, workerFixture, type WorkerFixture } from "./worker-fixture.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
  return () => fixture.close();
});

/** A smoke test with wide limits; the benchmarks measure. */
test("a herd is delivered once each by two workers, and recorded", async () => {
  const runs = Number(process.env["HERD"] ?? 1_000);
  const receiver = await startReceiver();
  const workers: { stop(): Promise<void> }[] = [];
  try {
    const at = Date.now() + 2_000;
    const jobs = Array.from({ length: runs }, () => webhookJob(receiver.url, { account: ACCOUNT }));
    await fixture.ledger.apply(jobs.map((of) => change(of, { create: [scheduled(at)] })));
    workers.push(fixture.worker());
    if (process.env["HERD"] === undefined) workers.push(fixture.worker());
    const calls = await receiver.count(runs, 20_000);
    await expect
      .poll(async () => (await fixture.queue.depth()).started, { timeout: 20_000 })
      .toBe(0);
    const recorded = Date.now() - at;
    const lateness = calls.map((call) => call.at - at).toSorted((a, b) => a - b);
    const { rows } = await fixture.pool.query<{ n: number }>(
      "select count(*)::int as n from executions where account = $1 and status = 'success'",
      [ACCOUNT],
    );
    console.info(
      `${runs} runs: median ${lateness[Math.floor(runs / 2)]} ms, p99 ${lateness[Math.floor(runs * 0.99)]} ms, last ${lateness.at(-1)} ms, recorded after ${recorded} ms`,
    );
    expect(new Set(calls.map((call) => call.headers["webhook-id"])).size).toBe(runs);
    expect(calls).toHaveLength(runs);
    expect(rows[0]?.n).toBe(runs);
    expect(lateness[0]).toBeGreaterThanOrEqual(-2);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await receiver.close();
  }
});

test("connections are open before runs are due, and nothing is sent on them: a job may still be deleted", async () => {
  const receiver = await startReceiver();
  const read: string[] = [];
  /** For the worker it is always a little before the due time, until the test says otherwise. */
  const at = Date.now() + 1_500;
  const clock = { known: true, now: () => at - 300 };
  const account = crypto.randomUUID();
  const jobs = Array.from({ length: 3 }, () => webhookJob(receiver.url, { account }));
  await fixture.ledger.apply(jobs.map((of) => change(of, { create: [scheduled(at)] })));
  const worker = fixture.worker({
    clock,
    signingSecrets: {
      current: async (of) => {
        read.push(of);
        return [SECRET];
      },
    },
  });
  try {
    await until("three are open", () => receiver.opened === 3);
    expect([receiver.received, read]).toEqual([[], [account]]);
    const [deleted] = jobs;
    if (deleted) await fixture.cancel([deleted]);
    clock.now = () => fixture.clock.now();
    await receiver.count(2);
    expect(receiver.opened).toBe(3);
    await until("all are closed", async () => {
      const { rows } = await fixture.pool.query("select from runs where account = $1", [account]);
      return rows.length === 0;
    });
    expect(receiver.received).toHaveLength(2);
  } finally {
    await worker.stop();
    await receiver.close();
  }
});

const ACCOUNT = crypto.randomUUID();
