import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { specToResource } from "../../../src/kubernetes/scheduled-job.ts";
import type { JobSpec } from "../../../src/domain/job.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { startReceiver } from "../../e2e/receiver.ts";
import { connect, createNamespace, installCrd } from "../../kubernetes/cluster.ts";
import type { Part } from "../../kubernetes/part.ts";
import { runToEnd, startPart } from "../../kubernetes/part.ts";
import { until } from "../../kubernetes/until.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { aSpec } from "../../unit/domain/decide-builders.ts";

const kubeconfig = inject("kubeconfig");
const JOBS = "/apis/carillon.dev/v1/namespaces";
/** The defaults of a production install: nothing shortens them here. */
const LEASE_MS = 15_000;
const RETRY_MS = 2_000 * 2.2;
/** How long a leader stays that PostgreSQL does not answer. */
const SILENT_MS = 30_000;
/** Starts of processes, calls and a first list on a busy machine. */
const SLACK_MS = 6_000;

const leads = async (part: Part): Promise<boolean> => (await part.metric("carillon_leader")) === 1;

/**
 * Whole controller processes, each with the default election, against a real API server and PostgreSQL.
 * They take about a minute, in which they run side by side.
 */
describe.runIf(kubeconfig !== "")("leaders", { concurrent: true }, () => {
  let admin: ReturnType<typeof connect>;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    admin = connect(kubeconfig);
    await installCrd(admin);
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
    await admin?.close();
  });

  async function installation() {
    const database = await createTestDatabase();
    closing.push(() => database.drop());
    const pool = createPool({ url: database.url, applicationName: "leaders test" });
    closing.push(() => pool.end());
    const receiver = await startReceiver();
    closing.push(() => receiver.close());
    const { name: namespace } = await createNamespace(admin, "leaders");
    const env = {
      DATABASE_URL: database.url,
      KUBECONFIG: kubeconfig,
      CARILLON_ENCRYPTION_KEYS: `test:${randomBytes(32).toString("base64")}`,
      CARILLON_WATCH_NAMESPACES: namespace,
      POD_NAMESPACE: namespace,
    };
    await runToEnd("cli", env, ["admin", "account", "create", namespace, "--namespace", namespace]);

    const controller = async (podName: string, more: Record<string, string> = {}) => {
      const part = await startPart("controller", { ...env, POD_NAME: podName, ...more });
      closing.push(async () => {
        if (part.program.child.exitCode === null) part.program.signal("SIGKILL");
        await part.program.finished;
      });
      return part;
    };
    const create = (name: string, spec: Partial<JobSpec>) =>
      admin.call<{ metadata: { uid: string } }>({
        verb: "create",
        resource: "scheduledjobs",
        path: `${JOBS}/${namespace}/scheduledjobs`,
        body: {
          apiVersion: "carillon.dev/v1",
          kind: "ScheduledJob",
          metadata: { name },
          spec: {
            ...specToResource(aSpec(spec)),
            webhook: { url: `${receiver.url}/${name}` },
          },
        },
      });
    /** A one-time job for each second; fire times are whole seconds. */
    const createSeries = async (from: number, count: number): Promise<void> => {
      for (let index = 0; index < count; index += 1)
        await create(`second-${String(index).padStart(3, "0")}`, {
          schedule: { kind: "once", at: from + index * 1_000 },
        });
    };
    const executions = async () => {
      const { rows } = await pool.query<{
        job_id: string;
        scheduled_at: Date;
        error_message: string | null;
        late_ms: number;
      }>(
        `select job_id, scheduled_at, error_message,
                extract(epoch from executed_at - scheduled_at)::float8 * 1000 as late_ms
           from executions order by job_id`,
      );
      return rows;
    };
    /** Every job has one execution; a call that was not made, or made twice, has to be accounted for. */
    const expectOnce = async (count: number): Promise<void> => {
      await until(async () => (await executions()).length >= count, {
        within: 60_000,
        every: 200,
        what: "all executions",
      });
      const recorded = await executions();
      expect(recorded.map((each) => each.job_id)).toEqual([
        ...new Set(recorded.map((each) => each.job_id)),
      ]);
      expect(recorded).toHaveLength(count);
      const calls = receiver.received.map((call) => call.path);
      expect(calls).toHaveLength(new Set(calls).size);
      // Whoever was called in the leader's last moment may have no answer, and no other call.
      const unaccounted = recorded.filter(
        ({ job_id: id, error_message: message }) =>
          !(message === null ? calls.includes(`/${id}`) : message.includes("interrupted")),
      );
      expect(unaccounted).toEqual([]);
      const { rows } = await pool.query("select from missed_spans");
      expect(rows).toHaveLength(0);
    };
    /** A wire to the database of its own, for one that is to be cut off alone. */
    const wire = async () => {
      const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
      closing.push(() => proxy.close());
      const url = new URL(database.url);
      url.host = `127.0.0.1:${proxy.port}`;
      return { proxy, env: { DATABASE_URL: url.href } };
    };
    return { receiver, pool, namespace, controller, create, createSeries, expectOnce, wire };
  }

  test(
    "two that both believe they lead create each fire time once",
    { timeout: 180_000 },
    async () => {
      const { controller, create, receiver, pool, namespace } = await installation();
      // A Lease each: nobody is there to contradict either of them.
      const both = await Promise.all([
        controller("one", { CARILLON_LEASE_NAME: "one" }),
        controller("two", { CARILLON_LEASE_NAME: "two" }),
      ]);
      await until(async () => (await leads(both[0])) && (await leads(both[1])), {
        within: 20_000,
        what: "two leaders",
      });
      const minute = Math.ceil((Date.now() + 30_000) / 60_000) * 60_000;
      const herd = Array.from({ length: 60 }, (_, index) => `once-${index}`);
      const crons = Array.from({ length: 10 }, (_, index) => `cron-${index}`);
      const manual = Array.from({ length: 10 }, (_, index) => `manual-${index}`);
      for (const name of herd) await create(name, { schedule: { kind: "once", at: minute } });
      for (const name of crons)
        await create(name, {
          schedule: { kind: "cron", expression: "* * * * *", timeZone: "UTC" },
        });
      const yearly = { kind: "cron", expression: "0 0 1 1 *", timeZone: "UTC" } as const;
      for (const name of manual) await create(name, { schedule: yearly });
      for (const name of manual)
        await admin.call({
          verb: "patch",
          resource: "scheduledjobs",
          path: `${JOBS}/${namespace}/scheduledjobs/${name}`,
          body: { metadata: { annotations: { "carillon.dev/run-now": "1" } } },
        });
      expect(Date.now()).toBeLessThan(minute);

      const expected = [...herd, ...crons, ...manual].length;
      const atMinute = new Date(minute).toISOString();
      const recorded = async () => {
        const { rows } = await pool.query<{ job_id: string }>(
          `select job_id from executions where scheduled_at = $1 or trigger = 'manual'
            order by job_id`,
          [atMinute],
        );
        return rows.map((row) => row.job_id);
      };
      await until(async () => (await recorded()).length >= expected, {
        within: 120_000,
        every: 200,
        what: "all runs",
      });
      // Both are through with that minute, and with whatever they would do twice.
      await until(async () => {
        const depths = both.map((part) => part.metric("carillon_reconcile_queue_depth"));
        return (await Promise.all(depths)).every((depth) => depth === 0);
      });
      expect(await recorded()).toEqual([...herd, ...crons, ...manual].toSorted());
      const identities = receiver.received
        .map(({ path, headers }) => `${path} ${String(headers["carillon-scheduled-at"])}`)
        .toSorted();
      expect(identities).toEqual([...new Set(identities)]);
      expect(await leads(both[0])).toBe(true);
      expect(await leads(both[1])).toBe(true);
      // They did get in each other's way, and the cursor told them.
      const conflicts = both.map((part) =>
        part.metric("carillon_reconciles_total", 'outcome="conflict"'),
      );
      const [one = 0, two = 0] = await Promise.all(conflicts);
      expect(one + two).toBeGreaterThan(0);
      for (const part of both) await part.stop();
    },
  );

  const ENDS = [
    { title: "kill -9 of the leader", signal: "SIGKILL", continueAfterMs: undefined },
    { title: "SIGSTOP of the leader for 20 s", signal: "SIGSTOP", continueAfterMs: 20_000 },
  ] as const;
  test.each(ENDS)(
    "$title: the other leads within the lease duration and a retry, every fire time runs once",
    { timeout: 180_000 },
    async ({ signal, continueAfterMs }) => {
      const { controller, createSeries, expectOnce } = await installation();
      const first = await controller("first");
      await until(() => leads(first), { within: 20_000, what: "a leader" });
      const second = await controller("second");
      // From before the end of the leader until well after the takeover.
      const seconds = 45;
      await createSeries(Math.ceil(Date.now() / 1_000) * 1_000 + 8_000, seconds);
      expect(await leads(second)).toBe(false);

      const ended = performance.now();
      first.program.signal(signal);
      await until(() => leads(second), {
        within: LEASE_MS + RETRY_MS + SLACK_MS,
        what: "a new leader",
      });
      const tookMs = performance.now() - ended;
      console.info(`${signal}: took over after ${(tookMs / 1_000).toFixed(1)} s`);
      if (continueAfterMs !== undefined) {
        await until(() => performance.now() - ended >= continueAfterMs, { within: 30_000 });
        first.program.signal("SIGCONT");
        // It learns at once that it leads no more, and stands again as a follower.
        await until(async () => !(await leads(first)), { what: "the old leader steps down" });
      }
      await expectOnce(seconds);
      expect(await leads(second)).toBe(true);
    },
  );

  test(
    "a leader that alone has lost PostgreSQL makes room, every fire time runs once",
    { timeout: 180_000 },
    async () => {
      const { controller, createSeries, expectOnce, wire } = await installation();
      const { proxy, env } = await wire();
      const first = await controller("first", env);
      await until(() => leads(first), { within: 20_000, what: "a leader" });
      const second = await controller("second");
      const seconds = 20;
      // Due when the first has long been cut off: only another leader can schedule them.
      await createSeries(Math.ceil(Date.now() / 1_000) * 1_000 + 25_000, seconds);

      const cut = performance.now();
      proxy.hang();
      await until(() => leads(second), {
        within: SILENT_MS + RETRY_MS + SLACK_MS,
        what: "a new leader",
      });
      const tookMs = performance.now() - cut;
      console.info(`cut off from PostgreSQL: took over after ${(tookMs / 1_000).toFixed(1)} s`);
      expect(await leads(first)).toBe(false);
      await expectOnce(seconds);
      proxy.heal();
      expect(await leads(second)).toBe(true);
    },
  );
});
