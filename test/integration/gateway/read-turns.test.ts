import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../until.ts";
import { newUser, type Visitor } from "./dashboard-visitor.ts";
import { startHarness, type Harness } from "./harness.ts";

let h: Harness;
let owner: Visitor;
beforeAll(async () => {
  h = await startHarness();
  owner = await newUser(h, { account: h.first.account, email: "owner@example.com" });
});
afterAll(() => h.close());

/** Locks a table: whatever reads it waits until the lock is released. */
async function lock(table: string) {
  const client = await h.pool.connect();
  await client.query(`begin; lock table ${table}`);
  return {
    waiting: async () => {
      const { rows } = await client.query<{ pids: number }>(
        `select count(distinct pid)::int as pids from pg_locks
         where not granted and database = (select oid from pg_database where datname = current_database())`,
      );
      return rows[0]?.pids;
    },
    end: async () => {
      await client.query("rollback");
      client.release();
    },
  };
}

test.each([
  { list: "/logs", table: "email_log" },
  { list: "/logs?to=ada@example.com", table: "email_log" },
  { list: "/jobs/some/executions", table: "executions" },
  { list: "/jobs/some/executions?include=missed", table: "missed_spans" },
  { list: "/dashboard/api/logs", table: "email_log" },
  { list: "/dashboard/api/jobs/some/executions", table: "executions" },
  { list: "/dashboard/api/jobs?sort=last_run", table: "job_cursors" },
  { list: "/dashboard/api/otp", table: "otp_counts" },
  { list: "/dashboard/api/overview", table: "execution_counts" },
])("an account's crowd at $list leaves connections to others", async ({ list, table }) => {
  const slow = await lock(table);
  const ask = list.startsWith("/dashboard/api")
    ? () => owner.get(list.slice("/dashboard/api".length))
    : () => h.request({ path: list });
  const crowd = Array.from({ length: 12 }, ask);
  try {
    await until("four of them read", async () => ((await slow.waiting()) ?? 0) >= 4);
    expect((await h.request({ path: "/jobs/none", key: h.second.key })).status).toBe(404);
    expect(await slow.waiting()).toBe(4);
  } finally {
    await slow.end();
  }
  const statuses = (await Promise.all(crowd)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([list.includes("some") ? 404 : 200]));
});

test("lists that clients have given up on are not read, and hold up nobody", async () => {
  const slow = Promise.withResolvers<void>();
  let read = 0;
  const own = await startHarness({
    jobs: (jobs) => ({
      ...jobs,
      list: async (query) => {
        read += 1;
        await slow.promise;
        return jobs.list(query);
      },
    }),
  });
  try {
    const crowd = Array.from({ length: 20 }, () => connect(own.port, "127.0.0.1"));
    await Promise.all(crowd.map((socket) => once(socket, "connect")));
    for (const socket of crowd)
      socket.write(`GET /jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: ${own.first.key}\r\n\r\n`);
    await expect.poll(own.inFlight).toBe(20);
    await until("two of them read", () => read === 2);
    for (const socket of crowd) socket.destroy();
    await expect.poll(own.inFlight).toBe(0);
    slow.resolve();
    expect((await own.request({ path: "/jobs" })).status).toBe(200);
    expect(read).toBe(3);
  } finally {
    slow.resolve();
    await own.close();
  }
});
