import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Lease } from "../../../src/kubernetes/lease.ts";
import { specToResource } from "../../../src/kubernetes/scheduled-job.ts";
import type { JobSpec } from "../../../src/domain/job.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { startReceiver } from "../../receiver.ts";
import { connect, createNamespace, installCrd } from "../../kubernetes/cluster.ts";
import { startHttpProxy } from "../../kubernetes/http-proxy.ts";
import { runToEnd, startPart, type Part } from "../../kubernetes/part.ts";
import { addressOf, startTcpProxy } from "../../network/tcp-proxy.ts";
import { createTestDatabase } from "../../postgres/database.ts";
import { until } from "../../until.ts";
import { aSpec } from "../../unit/domain/decide-builders.ts";

const kubeconfig = inject("kubeconfig");
const JOBS = "/apis/carillon.dev/v1/namespaces";
/** The defaults of production, not shortened here. */
const LEASE_MS = 15_000;
const RETRY_MS = 2_000 * 2.2;
/** How long a process remains leader that gets no answers from PostgreSQL. */
const SILENT_MS = 30_000;
/** Time for starts of processes, calls and a first list on a busy machine. */
const SLACK_MS = 6_000;

interface KubeConfigFile {
  clusters: { cluster: { server?: string; "certificate-authority-data"?: string } }[];
}

/** Refuses lists, as the administrator of a namespace can do to a controller. */
const refuseLists = (method: string, path: string) =>
  method === "GET" && path.includes("/scheduledjobs?") && !path.includes("watch=true")
    ? { status: 403, body: JSON.stringify({ kind: "Status", code: 403, message: "forbidden" }) }
    : undefined;

const leads = async (part: Part): Promise<boolean> => (await part.metric("carillon_leader")) === 1;

/**
 * Whole controller processes with the default election, a real API server and a real PostgreSQL. The tests take about a
 * minute each, and run side by side.
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
    const create = (
      name: string,
      spec: Partial<JobSpec>,
      webhook: { url: string; timeoutSeconds?: number } = { url: receiver.url },
    ) =>
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
            webhook: { ...webhook, url: `${webhook.url}/${name}` },
          },
        },
      });
    /** Creates a one-time job for each second, because fire times are whole seconds. */
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
    /** Every job has exactly one execution, and each missing call is accounted for. */
    const expectOnce = async (count: number): Promise<void> => {
      await until("all executions", async () => (await executions()).length >= count, 60_000);
      const recorded = await executions();
      expect(recorded.map((each) => each.job_id)).toEqual([
        ...new Set(recorded.map((each) => each.job_id)),
      ]);
      expect(recorded).toHaveLength(count);
      const calls = receiver.received.map((call) => call.path);
      expect(calls).toHaveLength(new Set(calls).size);
      // A run that was sent in the leader's last moment may be recorded as interrupted, and is not sent again.
      const unaccounted = recorded.filter(
        ({ job_id: id, error_message: message }) =>
          !(message === null ? calls.includes(`/${id}`) : message.includes("interrupted")),
      );
      expect(unaccounted).toEqual([]);
      const { rows } = await pool.query("select from missed_spans");
      expect(rows).toHaveLength(0);
    };
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/carillon-controller`;
    const holder = async () => {
      const lease = await admin.call<Lease>({ verb: "get", resource: "leases", path });
      return lease.spec?.holderIdentity;
    };
    /** A wire to the database for one process, which can be cut off alone. */
    const wire = async () => {
      const proxy = await startTcpProxy({ target: () => addressOf(database.url) });
      closing.push(() => proxy.close());
      const url = new URL(database.url);
      url.host = `127.0.0.1:${proxy.port}`;
      return { proxy, env: { DATABASE_URL: url.href } };
    };
    /** A wire to the API server for one process, on which a test can answer in its place. */
    const apiWire = async () => {
      const config = JSON.parse(await readFile(kubeconfig, "utf8")) as KubeConfigFile;
      const { server = "", "certificate-authority-data": ca = "" } =
        config.clusters[0]?.cluster ?? {};
      const proxy = await startHttpProxy({ server, ca: Buffer.from(ca, "base64").toString() });
      closing.push(() => proxy.close());
      const folder = await mkdtemp(join(tmpdir(), "carillon-kubeconfig-"));
      closing.push(() => rm(folder, { recursive: true }));
      const file = join(folder, "kubeconfig");
      // client-node allows plain HTTP only without verification of TLS.
      const cluster = { server: proxy.url, "insecure-skip-tls-verify": true };
      const clusters = config.clusters.map((each) => ({ ...each, cluster }));
      await writeFile(file, JSON.stringify({ ...config, clusters }));
      return { proxy, env: { KUBECONFIG: file } };
    };
    return {
      receiver,
      pool,
      namespace,
      controller,
      holder,
      create,
      createSeries,
      executions,
      expectOnce,
      wire,
      apiWire,
    };
  }

  test(
    "two that both believe they lead create each fire time once",
    { timeout: 180_000 },
    async () => {
      const { controller, create, receiver, pool, namespace } = await installation();
      // Each has a Lease of its own, so that both lead.
      const both = await Promise.all([
        controller("one", { CARILLON_LEASE_NAME: "one" }),
        controller("two", { CARILLON_LEASE_NAME: "two" }),
      ]);
      await until(
        "two leaders",
        async () => (await leads(both[0])) && (await leads(both[1])),
        20_000,
      );
      const minute = Math.ceil((Date.now() + 30_000) / 60_000) * 60_000;
      const herd = Array.from({ length: 60 }, (_, index) => `once-${index}`);
      const crons = Array.from({ length: 10 }, (_, index) => `cron-${index}`);
      const manual = Array.from({ length: 10 }, (_, index) => `manual-${index}`);
      const each = (names: string[], schedule: JobSpec["schedule"]) =>
        Promise.all(names.map((name) => create(name, { schedule })));
      const yearly = { kind: "cron", expression: "0 0 1 1 *", timeZone: "UTC" } as const;
      await Promise.all([
        each(herd, { kind: "once", at: minute }),
        each(crons, { kind: "cron", expression: "* * * * *", timeZone: "UTC" }),
        each(manual, yearly),
      ]);
      const runNow = (name: string) =>
        admin.call({
          verb: "patch",
          resource: "scheduledjobs",
          path: `${JOBS}/${namespace}/scheduledjobs/${name}`,
          body: { metadata: { annotations: { "carillon.dev/run-now": "1" } } },
        });
      await Promise.all(manual.map(runNow));
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
      await until("all runs", async () => (await recorded()).length >= expected, 120_000);
      // Waits until both have dealt with that minute, and have done whatever they might do twice.
      await until("empty queues", async () => {
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
      // They did conflict, and the cursors told them.
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
      await until("a leader", () => leads(first), 20_000);
      const second = await controller("second");
      // The series lasts from before the end of the leader until well after the takeover.
      const seconds = 45;
      await createSeries(Math.ceil(Date.now() / 1_000) * 1_000 + 8_000, seconds);
      expect(await leads(second)).toBe(false);

      const ended = performance.now();
      first.program.signal(signal);
      await until("a new leader", () => leads(second), LEASE_MS + RETRY_MS + SLACK_MS);
      const tookMs = performance.now() - ended;
      console.info(`${signal}: took over after ${(tookMs / 1_000).toFixed(1)} s`);
      if (continueAfterMs !== undefined) {
        await until(
          "the time to continue it",
          () => performance.now() - ended >= continueAfterMs,
          30_000,
        );
        first.program.signal("SIGCONT");
        // It learns at once that it no longer leads, and becomes a follower.
        await until("the old leader steps down", async () => !(await leads(first)), 10_000);
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
      await until("a leader", () => leads(first), 20_000);
      const second = await controller("second");
      const seconds = 20;
      // Due long after the first is cut off: only another leader can schedule them.
      await createSeries(Math.ceil(Date.now() / 1_000) * 1_000 + 25_000, seconds);

      const cut = performance.now();
      proxy.hang();
      await until("a new leader", () => leads(second), SILENT_MS + RETRY_MS + SLACK_MS);
      const tookMs = performance.now() - cut;
      console.info(`cut off from PostgreSQL: took over after ${(tookMs / 1_000).toFixed(1)} s`);
      expect(await leads(first)).toBe(false);
      await expectOnce(seconds);
      proxy.heal();
      expect(await leads(second)).toBe(true);
    },
  );

  test(
    "an ending leader makes room at once, and goes on with what it delivers",
    { timeout: 120_000 },
    async () => {
      const { controller, create, executions, holder } = await installation();
      const calls: ServerResponse[] = [];
      const slow = await startReceiver((_call, response) => calls.push(response));
      closing.push(() => slow.close());
      const first = await controller("first");
      await until("a leader", () => leads(first), 20_000);
      const at = Math.ceil(Date.now() / 1_000) * 1_000 + 1_000;
      // The call waits for its answer during all that follows.
      const patient = { url: slow.url, timeoutSeconds: 300 };
      await create("slow", { schedule: { kind: "once", at } }, patient);
      await slow.count(1);
      // Started only now: otherwise it might be the one that delivers.
      const second = await controller("second");

      expect(await holder()).toMatch(/^first/);
      first.program.signal("SIGTERM");
      // If the lease were not released, it would name the first process for at least so long.
      const unreleasedMs = LEASE_MS - RETRY_MS;
      await until("the lease", async () => !(await holder())?.startsWith("first"), unreleasedMs);
      expect(await leads(first)).toBe(false);
      await until("a new leader", () => leads(second), RETRY_MS + SLACK_MS);
      expect(first.program.child.exitCode).toBeNull();
      expect(await executions()).toEqual([]);

      for (const call of calls) call.end("ok");
      expect(await first.program.finished).toMatchObject({ code: 0 });
      expect(await executions()).toMatchObject([{ job_id: "slow", error_message: null }]);
      expect(slow.received).toHaveLength(1);
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "what an ending leader has to tell, and the API server has no time for, is told",
    { timeout: 120_000 },
    async () => {
      const { controller, create, namespace, apiWire } = await installation();
      const { proxy, env } = await apiWire();
      const told = Promise.withResolvers<void>();
      let times = 0;
      proxy.decide((method, path) => {
        if (method !== "POST" || !path.includes("/events") || times++ > 0) return undefined;
        told.resolve();
        return { status: 429, headers: { "retry-after": "0.5" } };
      });
      const leader = await controller("first", env);
      const nobody = { url: "http://127.0.0.1:1" };
      await create("fails", { schedule: { kind: "once", at: Date.now() } }, nobody);
      await told.promise;
      leader.program.signal("SIGTERM");
      expect(await leader.program.finished).toMatchObject({ code: 0 });
      const { items } = await admin.call<{ items: { reason: string }[] }>({
        verb: "list",
        resource: "events",
        path: `/apis/events.k8s.io/v1/namespaces/${namespace}/events`,
      });
      expect(items.map(({ reason }) => reason)).toContain("RunFailed");
    },
  );

  test(
    "a container that starts again in its pod is not the one that died",
    { timeout: 120_000 },
    async () => {
      const { controller, holder } = await installation();
      const first = await controller("pod");
      await until("a leader", () => leads(first), 20_000);
      const died = await holder();
      first.program.signal("SIGKILL");
      await first.program.finished;
      const again = await controller("pod");
      await until("a leader", () => leads(again), LEASE_MS + RETRY_MS + SLACK_MS);
      expect(await holder()).toMatch(/^pod_/);
      expect(await holder()).not.toBe(died);
    },
  );

  test.runIf(inject("tokenSecret") !== "")(
    "who cannot list the jobs is not ready, does not stand, and does not stay",
    { timeout: 180_000 },
    async () => {
      const { controller, create, createSeries, expectOnce, apiWire } = await installation();
      const [blindWire, firstWire] = [await apiWire(), await apiWire()];
      blindWire.proxy.decide(refuseLists);
      // Started alone, so that nobody else prevents it from leading.
      const blind = await controller("blind", blindWire.env);
      await until("a list that fails", () =>
        blind.logged("the job store does not answer; retrying"),
      );
      const first = await controller("first", firstWire.env);
      await until("a leader", () => leads(first), 20_000);
      expect(await readiness(blind)).toEqual({ code: 503, controller: "down" });
      expect(await readyzOnceUp(first)).toMatchObject({ code: 200 });
      const second = await controller("second");
      await until("readiness", async () => (await readiness(second)).code === 200);

      const seconds = 10;
      // Due long after the first can no longer see them.
      await createSeries(Math.ceil(Date.now() / 1_000) * 1_000 + 30_000, seconds);
      firstWire.proxy.decide(refuseLists);
      // Its watch breaks, and it cannot list.
      firstWire.proxy.injectIntoWatch("<html>not an event</html>\n");
      await create("event", { schedule: { kind: "once", at: Date.now() + 3_600_000 } });
      const cut = performance.now();
      // Lists are tried every five seconds, so the failure may be noticed so much later.
      const within = SILENT_MS + 5_000 + RETRY_MS + SLACK_MS;
      await until("a new leader", () => leads(second), within);
      const tookMs = performance.now() - cut;
      console.info(`cannot list: took over after ${(tookMs / 1_000).toFixed(1)} s`);
      expect(await leads(first)).toBe(false);
      expect(await leads(blind)).toBe(false);
      // It stays ready, because it was ready once: taking it out of a Service would not help.
      expect(await readiness(first)).toEqual({ code: 200, controller: "down" });
      expect(await readiness(blind)).toEqual({ code: 503, controller: "down" });
      await expectOnce(seconds);

      blindWire.proxy.decide(undefined);
      await until("readiness", async () => (await readiness(blind)).code === 200);
    },
  );

  test("one of several namespaces refuses: it is said, and keeps nobody from leading", async () => {
    const { controller, namespace, apiWire } = await installation();
    const { name: refusing } = await createNamespace(admin, "refusing");
    const { proxy, env } = await apiWire();
    proxy.decide((method, path) =>
      path.includes(refusing) ? refuseLists(method, path) : undefined,
    );
    const namespaces = { CARILLON_WATCH_NAMESPACES: `${namespace},${refusing}` };
    const part = await controller("first", { ...env, ...namespaces });
    await until("a leader", () => leads(part), 20_000);
    expect(await readyzOnceUp(part)).toMatchObject({
      code: 200,
      dependencies: { namespaces: "down" },
    });
  });

  test("a controller without a list of namespaces says nothing of them", async () => {
    const { controller } = await installation();
    const part = await controller("first", { CARILLON_WATCH_NAMESPACES: "" });
    const { dependencies } = await readyzOnceUp(part);
    expect(dependencies).toEqual({ postgres: "up", jobs: "up", controller: "up" });
  });
});

/** Waits until the controller is up: overlapping requests share one answer, which may be of before that. */
async function readyzOnceUp(part: Part): ReturnType<Part["readyz"]> {
  return until("readyz with the controller up", async () => {
    const said = await part.readyz();
    return said.dependencies["controller"] === "up" && said;
  });
}

async function readiness(part: Part): Promise<{ code: number; controller: string | undefined }> {
  const { code, dependencies } = await part.readyz();
  return { code, controller: dependencies["controller"] };
}
