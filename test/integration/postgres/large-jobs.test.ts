import { randomUUID } from "node:crypto";
import { Worker } from "node:worker_threads";
import type { QueryConfig } from "pg";
import { beforeAll, expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { createNotifications } from "../../../src/postgres/notifications.ts";
import type { Pool } from "../../../src/postgres/pool.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import type { LargeJobs } from "./large-jobs-worker.ts";
import { runsFixture, spec, type RunsFixture } from "./runs-fixture.ts";

let fixture: RunsFixture;
beforeAll(async () => {
  fixture = await runsFixture();
  return () => fixture.close();
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

test("a statement creates only some of them: it has the time, and others do not wait for all", async () => {
  const sizes: number[] = [];
  const pool: Pool = Object.create(fixture.pool, {
    query: {
      value: (statement: QueryConfig) => {
        sizes.push(String(statement.values?.at(-1)).length);
        return fixture.pool.query(statement);
      },
    },
  });
  const notifications = createNotifications({ url: fixture.url, applicationName: "test" });
  const store = createPostgresJobStore({ pool, notifications, timers });
  const large = spec();
  const payload = JSON.stringify(Array<string>(87_000).fill(""));
  if (large.target.kind === "webhook") large.target.payload = payload;
  const account = randomUUID();
  const ids = Array.from({ length: 50 }, (_, index) => `large-${index}`);
  const made = await Promise.all(ids.map((id) => store.create({ account, id, spec: large })));
  await notifications.close();
  expect(made.map(({ id }) => id)).toEqual(ids);
  expect(Math.max(...sizes)).toBeLessThan(5 << 20);
});
