/** PostgreSQL's clock steps ahead, for all of its sessions. */
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { monotonic } from "../../../cmd/system.ts";
import { admin } from "../../postgres/admin.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";
import { endingWithTest, webhookJob, workerFixture, type WorkerFixture } from "./worker-fixture.ts";

let fixture: WorkerFixture;
beforeAll(async () => {
  const database = await createTestDatabase();
  await admin(
    database.url,
    `do $do$ begin
       create schema stepped;
       create table stepped.clock (by interval not null);
       insert into stepped.clock values ('0');
       create function stepped.clock_timestamp() returns timestamptz language sql volatile as
         'select pg_catalog.clock_timestamp() + (select by from stepped.clock)';
       execute format('alter database %I set search_path = stepped, pg_catalog, public', current_database());
     end $do$`,
  );
  fixture = await workerFixture(database);
});
afterAll(() => fixture?.close());
const { create, receiver, worker } = endingWithTest(() => fixture);

test("leases that a step has ended are renewed before anybody looks for the dead", async () => {
  const answers: ServerResponse[] = [];
  const target = await receiver((_call, response) => answers.push(response));
  const of = webhookJob(target.url, {
    retry: { maxRetries: 1, minBackoffSeconds: 1, maxBackoffSeconds: 1 },
  });
  await create({ of });
  const lease = 3_000;
  worker({ timing: { lease, renew: 1_000, reap: 600_000 } });
  await target.count(1);
  const queue = fixture.anotherQueue();
  let reaps = 0;
  worker({
    timing: { lease, reap: 50 },
    queue: {
      ...queue,
      reap: (given) => {
        reaps += 1;
        return queue.reap(given);
      },
    },
  });
  await until("the dead are looked for", () => reaps > 0);
  const ahead = () => fixture.clock.now() - monotonic();
  const before = ahead();
  await fixture.pool.query("update stepped.clock set by = '4 s'");
  await until("the step is measured", () => ahead() > before + 3_000);
  const soFar = reaps;
  // One reap may be under way. After the step, the next ones wait for the length of a lease.
  await until("the dead are looked for again", () => reaps > soFar + 1);
  for (const answer of answers) answer.end();
  expect(await fixture.executions(of, 1)).toMatchObject([{ status: "success", attempt: 1 }]);
  expect(target.received).toHaveLength(1);
});
