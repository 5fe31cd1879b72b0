import { beforeAll, expect, test } from "vitest";
import { change, scheduled } from "../postgres/runs-fixture.ts";
import { startReceiver } from "../../receiver.ts";
import { webhookJob, workerFixture, type WorkerFixture } from "./worker-fixture.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  fixture = await workerFixture();
  return () => fixture.close();
});

/** A smoke test with wide limits; the benchmarks measure. */
test("a herd is delivered once each by two workers, and recorded", async () => {
  const runs = Number(process.env["HERD"] ?? 1_000);
  const receiver = await startReceiver();
  try {
    const at = Date.now() + 2_000;
    const jobs = Array.from({ length: runs }, () => webhookJob(receiver.url, { account: ACCOUNT }));
    await fixture.ledger.apply(jobs.map((of) => change(of, { create: [scheduled(at)] })));
    fixture.worker();
    if (process.env["HERD"] === undefined) fixture.worker();
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
    await receiver.close();
  }
});

const ACCOUNT = crypto.randomUUID();
