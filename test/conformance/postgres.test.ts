import { randomUUID } from "node:crypto";
import { timers } from "../../cmd/system.ts";
import { createNotifications } from "../../src/postgres/notifications.ts";
import { createPostgresJobIndex } from "../../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../../src/postgres/postgres-job-store.ts";
import { createRetention } from "../../src/postgres/retention.ts";
import { createTestDatabase } from "../postgres/database.ts";
import { until } from "../until.ts";
import { jobIndexConformance } from "./job-index.ts";
import { cronSpec, jobStoreConformance } from "./job-store.ts";

jobStoreConformance("PostgreSQL", async () => {
  const database = await createTestDatabase();
  const pool = database.pool();
  const notifications = createNotifications({ url: database.url, applicationName: "test" });
  const store = createPostgresJobStore({ pool, notifications, timers });
  const accounts = [randomUUID(), randomUUID()] as const;
  return {
    store,
    accounts,
    expire: async () => {
      await store.delete(
        await store.create({ account: accounts[0], id: "gone", spec: cronSpec() }),
      );
      await pool.query("update jobs set deleted_at = now() - interval '2 days' where id = 'gone'");
      const clock = { known: true, now: () => Date.now() };
      const retention = createRetention({ pool, clock, retentionDays: 90 });
      await retention.run(new AbortController().signal);
      // Until then, lists begin at the oldest transaction that is open on this server, also of other tests.
      await until("lists begin after the deletion", async () => {
        const { rowCount } = await pool.query(
          `select from carillon_meta where key = 'jobs_purged_xid'
              and value::xid8 < pg_snapshot_xmin(pg_current_snapshot())`,
        );
        return rowCount === 1;
      });
    },
    close: async () => {
      await notifications.close();
      await database.drop();
    },
  };
});

jobIndexConformance("PostgreSQL", async () => {
  const database = await createTestDatabase();
  const pool = database.pool();
  const notifications = createNotifications({ url: database.url, applicationName: "test" });
  const jobs = createPostgresJobStore({ pool, notifications, timers });
  return {
    index: createPostgresJobIndex({ pool, monotonic: () => performance.now() }),
    jobs,
    elsewhere: createPostgresJobStore({ pool, notifications, timers }),
    newAccount: async () => randomUUID(),
    lose: async () => {
      // As the retention task deletes tombstones.
      await pool.query("delete from jobs where deleted_at is not null");
      await pool.query(
        "update carillon_meta set value = pg_current_xact_id()::text where key = 'jobs_purged_xid'",
      );
    },
    close: async () => {
      await notifications.close();
      await database.drop();
    },
  };
});
