import { afterAll, beforeAll, expect, test } from "vitest";
import { createWriteBehind } from "../../../src/delivery/write-behind.ts";
import type { Closing } from "../../../src/domain/ports/run-queue.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { timers } from "../../../cmd/system.ts";
import {
  change,
  job,
  runsFixture,
  scheduled,
  success,
  type RunsFixture,
} from "../postgres/runs-fixture.ts";

/** Milliseconds. */
const STATEMENT = 500;
const EACH = 20;
const RUNS = 60;

let fixture: RunsFixture;
let pool: Pool;
beforeAll(async () => {
  fixture = await runsFixture();
  pool = createPool({
    url: fixture.url,
    applicationName: "test",
    plans: "fixed",
    statementTimeoutMs: STATEMENT,
  });
});
afterAll(async () => {
  await pool?.end();
  await fixture?.close();
});

test("closings that together take longer than a statement may are recorded in parts", async () => {
  await fixture.pool.query(
    `create function slow() returns trigger language plpgsql as $$
     begin perform pg_sleep(${EACH / 1_000}); return new; end $$`,
  );
  await fixture.pool.query(
    "create trigger slow before insert on executions for each row execute function slow()",
  );
  const at = Date.now() - 1_000;
  await fixture.ledger.apply(
    Array.from({ length: RUNS }, () => change(job(), { create: [scheduled(at)] })),
  );
  const claim = { worker: "w", limit: RUNS, until: Date.now(), leaseMs: 60_000 };
  const runs = await fixture.queue.claim(claim);
  await fixture.queue.start(runs);
  const queue = fixture.anotherQueue(pool);
  const closed = new Set<string>();
  const refused: unknown[] = [];
  const closings = createWriteBehind<Closing>({
    write: async (items) => {
      for (const id of await queue.close(items)) closed.add(id);
    },
    onRefused: (_, error) => refused.push(error),
    onOutage: () => undefined,
    timers,
    collectMs: 0,
    maxBatch: 1_000,
  });
  for (const run of runs) closings.add(success(run));
  await closings.idle();
  expect(refused).toEqual([]);
  expect(closed.size).toBe(RUNS);
}, 20_000);
