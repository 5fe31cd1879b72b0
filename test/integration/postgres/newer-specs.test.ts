import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { monotonic, timers } from "../../../cmd/system.ts";
import { InvalidInput } from "../../../src/domain/findings.ts";
import type { JobStore } from "../../../src/domain/ports/job-store.ts";
import { UNREADABLE } from "../../../src/domain/stored-spec.ts";
import { timingOf } from "../../../src/domain/timing.ts";
import { createNotifications, type Notifications } from "../../../src/postgres/notifications.ts";
import { createPool, type Pool } from "../../../src/postgres/pool.ts";
import { createPostgresJobIndex } from "../../../src/postgres/postgres-job-index.ts";
import { createPostgresJobStore } from "../../../src/postgres/postgres-job-store.ts";
import { cronSpec, onceSpec } from "../../conformance/job-store.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";

/** Side by side with a newer release during an upgrade, or after a rollback from it. */
describe("a spec that a newer release has stored", () => {
  let database: TestDatabase;
  let pool: Pool;
  let notifications: Notifications;
  let store: JobStore;
  beforeAll(async () => {
    database = await createTestDatabase();
    pool = createPool({ url: database.url, applicationName: "test" });
    notifications = createNotifications({ url: database.url, applicationName: "test" });
    store = createPostgresJobStore({ pool, notifications, timers });
  });
  afterAll(async () => {
    await notifications.close();
    await pool.end();
    await database.drop();
  });

  /** Changes the spec as a newer release could have. */
  const written = (uid: string, change: object) =>
    pool.query(
      `update jobs set spec = spec || $2, generation = generation + 1, version = version + 1,
                       changed_xid = pg_current_xact_id() where uid = $1`,
      [uid, JSON.stringify(change)],
    );
  const stored = async (uid: string) =>
    (await pool.query<{ spec: unknown }>("select spec from jobs where uid = $1", [uid])).rows[0];

  test.each([
    { what: "another kind of schedule", change: { schedule: { kind: "rate", seconds: 60 } } },
    { what: "another kind of target", change: { target: { kind: "sms", number: "+1" } } },
    { what: "a target of another form", change: { target: { kind: "webhook", urls: [] } } },
    { what: "another policy", change: { concurrencyPolicy: "Queue" } },
    { what: "retries of another form", change: { retry: "often" } },
    { what: "a deadline of another form", change: { startingDeadlineSeconds: "1h" } },
  ])("with $what: its job is refused, and no other one", async ({ change }) => {
    const account = randomUUID();
    const { position } = await store.list({ account, limit: 1 });
    const unreadable = await store.create({ account, id: "a-newer", spec: cronSpec() });
    const readable = await store.create({ account, id: "b-known", spec: cronSpec() });
    await written(unreadable.uid, change);

    const { jobs } = await store.list({ account, limit: 10 });
    const all = (await store.list({ limit: 1_000 })).jobs.filter((job) => job.account === account);
    const index = await createPostgresJobIndex({ pool, monotonic }).jobs(account);
    for (const list of [jobs, all, index]) {
      expect(list.map(({ id }) => id)).toEqual(["a-newer", "b-known"]);
      for (const { spec } of list) timingOf(spec);
    }
    for (const list of [jobs, all])
      expect(list.map(({ spec }) => spec.refusal)).toEqual([UNREADABLE, undefined]);

    const ending = new AbortController();
    const changed = new Map<string, unknown>();
    for await (const event of store.watch(position, ending.signal)) {
      if (event.type === "changed") changed.set(event.job.uid, event.job.spec.refusal);
      if (changed.size === 2) break;
    }
    expect(changed).toEqual(
      new Map([
        [unreadable.uid, UNREADABLE],
        [readable.uid, undefined],
      ]),
    );

    const found = await store.get(account, "a-newer");
    if (!found) throw new Error("it is not there");
    const before = await stored(found.uid);
    await expect(store.update(found, { ...found.spec, suspend: true })).rejects.toThrow(
      InvalidInput,
    );
    expect(await stored(found.uid)).toEqual(before);
    await store.delete(found);
  });

  test("is read as it is if only fields were added", async () => {
    const account = randomUUID();
    const job = await store.create({ account, id: "with-more", spec: cronSpec() });
    await written(job.uid, { priority: 1 });
    expect(await store.get(account, job.id)).toMatchObject({ spec: cronSpec() });
  });

  test("keeps its time: a one-time job that is over is not armed by another one", async () => {
    const account = randomUUID();
    const at = Date.UTC(2035, 0, 31);
    const job = await store.create({ account, id: "once", spec: onceSpec(at, { suspend: true }) });
    await written(job.uid, { concurrencyPolicy: "Queue" });
    const refused = await store.get(account, job.id);
    expect(refused?.spec).toMatchObject({ schedule: { kind: "once", at }, suspend: true });
    expect(refused && timingOf(refused.spec).hash).toBe(timingOf(job.spec).hash);
  });
});
