import { randomUUID } from "node:crypto";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LargeJobs } from "./large-jobs-worker.ts";
import { runsFixture, type RunsFixture } from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
});
afterAll(async () => {
  await fixture?.close();
});

test.each([
  { as: "leader", stored: "job_revisions where job_uid::text" },
  { as: "gateway", stored: "jobs where id" },
] as const)(
  "many at once take a $as little memory, and are stored as they are",
  async ({ as, stored }) => {
    const uids = Array.from({ length: 400 }, () => randomUUID());
    const payload = JSON.stringify({ texts: Array<string>(6_000).fill('"\\ä') });
    const workerData: LargeJobs = {
      url: fixture.url,
      as,
      account: randomUUID(),
      uids,
      payload,
    };
    const { resolve, reject, promise } = Promise.withResolvers<number>();
    new Worker(new URL("large-jobs-worker.ts", import.meta.url), {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: 200 },
    })
      .once("error", reject)
      .once("exit", resolve);
    expect(await promise).toBe(0);
    const { rows } = await fixture.pool.query<{ same: number }>(
      `select count(*) as same from ${stored} = any($1::text[]) and spec #>> '{target,payload}' = $2`,
      [uids, payload],
    );
    expect(rows).toEqual([{ same: uids.length }]);
  },
);
