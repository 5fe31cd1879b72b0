/** The whole program on a real API server and a real PostgreSQL, with the rights that the chart gives it. */
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { createCircuits } from "../../../src/postgres/circuits.ts";
import { createPool } from "../../../src/postgres/pool.ts";
import { anotherControlPlane } from "../../kubernetes/control-plane.ts";
import type { OwnControlPlane } from "../../kubernetes/own-control-plane.ts";
import { createTestDatabase, type TestDatabase } from "../../postgres/database.ts";
import { startReceiver, type Receiver } from "../../receiver.ts";
import { until } from "../../until.ts";
import { call } from "../program.ts";
import { HOME, TEAM, install, type Installation, type Process } from "./installation.ts";

interface Status {
  phase?: string;
  nextScheduleTime?: string;
  lastScheduleTime?: string;
  lastExecution?: object;
  conditions?: { type: string; status: string; reason: string; message: string }[];
}
interface Resource {
  metadata: { name: string; uid: string; labels?: Record<string, string> };
  spec: Record<string, unknown>;
  status?: Status;
}

const condition = (status: Status, type: string) =>
  status.conditions?.find((each) => each.type === type);
const inSeconds = (seconds: number) =>
  new Date(Math.ceil(Date.now() / 1_000 + seconds) * 1_000).toISOString();

/** Whether a controller no longer uses its view of the jobs, and will list them as soon as it can. */
const isStale = (controller: Process) =>
  controller.stdout().lastIndexOf("the job store has been away for long") >
  controller.stdout().lastIndexOf("the job store is listed again");

/** The tests share one installation, in this order. */
const STORY = { shuffle: false };

describe.runIf(inject("tokenSecret") !== "")("Carillon on Kubernetes", STORY, async () => {
  let controlPlane: OwnControlPlane;
  let database: TestDatabase;
  let carillon: Installation;
  let receiver: Receiver;
  /** The statuses of the next answers, by path; afterwards it answers 200. */
  const answers = new Map<string, number[]>();
  let gateway: Process;
  const controllers = new Map<string, Process>();
  let key = "";

  beforeAll(async () => {
    controlPlane = await anotherControlPlane();
    database = await createTestDatabase();
    receiver = await startReceiver(({ path }, response) =>
      response.writeHead(answers.get(path)?.shift() ?? 200).end(),
    );
    carillon = await install(controlPlane, database);
  }, 240_000);
  afterAll(async () => {
    await carillon?.close();
    await receiver?.close();
    await database?.drop();
    await controlPlane?.stop();
  });

  const manifest = (name: string, spec: Record<string, unknown>, metadata = {}) =>
    JSON.stringify({
      apiVersion: "carillon.dev/v1",
      kind: "ScheduledJob",
      metadata: { name, namespace: TEAM, ...metadata },
      spec: { webhook: { url: `${receiver.url}/${name}` }, ...spec },
    });
  const apply = (text: string) => carillon.kube("apply -f -", text);
  const runNow = (name: string, value: string) =>
    carillon.kube(`-n ${TEAM} annotate sj ${name} carillon.dev/run-now=${value} --overwrite`);
  const get = async (name: string, namespace = TEAM) =>
    JSON.parse(await carillon.kube(`-n ${namespace} get sj ${name} -o json`)) as Resource;
  const rest = async (method: string, path: string, body?: unknown) => {
    const reply = await call(gateway.url, { key, method, path, body });
    return { ...reply, body: reply.body as Record<string, unknown> };
  };
  const callsOf = (path: string) => receiver.received.filter((call) => call.path === path);
  const called = (path: string, times = 1, withinMs = 15_000) =>
    until(
      `${times} calls of ${path}`,
      () => (callsOf(path).length >= times ? callsOf(path) : undefined),
      withinMs,
    );
  const statusOf = (name: string, accept: (status: Status) => boolean, namespace = TEAM) =>
    until(
      `the status of ${name}`,
      async () => {
        const { status } = await get(name, namespace);
        return status && accept(status) ? status : undefined;
      },
      30_000,
    );
  /** The process that holds the Lease. */
  const leader = () =>
    until(
      "a leader",
      async () => {
        const path = `-n ${HOME} get lease carillon-controller --ignore-not-found -o jsonpath={.spec.holderIdentity}`;
        const holder = await carillon.kube(path);
        return controllers.get(holder.split("_")[0] ?? "");
      },
      30_000,
    );

  /** Changes the payload, and returns the new generation. */
  const setVersion = async (name: string, version: number) => {
    const spec = JSON.stringify({ webhook: { payload: { v: version } } });
    await carillon.kube(`-n ${TEAM} patch sj ${name} --type merge -p {"spec":${spec}}`);
    return carillon.kube(`-n ${TEAM} get sj ${name} -o jsonpath={.metadata.generation}`);
  };
  const sends = (name: string, version: number, withinMs?: number) =>
    until(
      `version ${version} is sent`,
      async () => {
        await runNow(name, `${performance.now()}`);
        return callsOf(`/${name}`).some(({ body }) => body === `{"v":${version}}`);
      },
      withinMs,
    );
  const everyController = (what: string, is: (controller: Process) => boolean) =>
    until(`every controller ${what}`, () => [...controllers.values()].every(is), 60_000);

  test("the migration creates the first account once, several at the same time", async () => {
    const first = {
      CARILLON_BOOTSTRAP_ACCOUNT: "default",
      CARILLON_BOOTSTRAP_NAMESPACE: TEAM,
      CARILLON_BOOTSTRAP_EMAIL: "ada@example.com",
      CARILLON_BOOTSTRAP_PASSWORD: "correct horse battery",
    };
    const runs = await Promise.all([carillon.migrate(first), carillon.migrate(first)]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    const created = runs.filter(({ said }) => said.includes("Created the account default"));
    expect(created).toHaveLength(1);
    const again = await carillon.migrate({ ...first, CARILLON_BOOTSTRAP_ACCOUNT: "other" });
    expect(again).toMatchObject({ code: 0 });
    const accounts = JSON.parse(await carillon.admin("account list")) as unknown[];
    expect(accounts).toEqual([expect.objectContaining({ name: "default", namespace: TEAM })]);
  });

  test("gateway and two controllers start with the chart's rights", async () => {
    key = await carillon.admin("key create --account default --label e2e");
    gateway = await carillon.gateway("gateway-0");
    for (const name of ["controller-0", "controller-1"])
      controllers.set(name, await carillon.controller(name));
    expect((await leader()).name).toMatch(/^controller-[01]$/);
  });

  test("kubectl apply: the job fires, and REST and kubectl tell of it", async () => {
    const at = inSeconds(3);
    await apply(
      manifest("once", {
        displayName: "Once",
        schedule: { at },
        webhook: { url: `${receiver.url}/once`, payload: { n: 1 } },
      }),
    );
    const [call] = await called("/once");
    expect(call).toMatchObject({
      body: '{"n":1}',
      headers: {
        "carillon-job-id": "once",
        "carillon-scheduled-at": at,
        "content-type": "application/json",
      },
    });
    const status = await statusOf("once", ({ phase }) => phase === "Completed");
    expect(condition(status, "LastRunSucceeded")).toMatchObject({ status: "True" });
    const { body } = await rest("GET", "/jobs/once");
    expect(body).toMatchObject({ name: "Once", status: "completed", last_status: "success" });
    const executions = await rest("GET", "/jobs/once/executions");
    expect(executions.body).toEqual([
      expect.objectContaining({ status: "success", http_status: 200, job_id: "once" }),
    ]);
    expect(callsOf("/once")).toHaveLength(1);
  });

  test("kubectl get sj has columns that make sense", async () => {
    // Does not fire while the tests run, at whatever time of day that is.
    await apply(
      manifest("leap-day", { schedule: { cron: "0 3 29 2 *", timeZone: "Europe/Paris" } }),
    );
    await statusOf("leap-day", ({ nextScheduleTime }) => nextScheduleTime !== undefined);
    const [head = "", row = ""] = (await carillon.kube(`-n ${TEAM} get sj leap-day`)).split("\n");
    expect(head.split(/\s+/)).toEqual([
      "NAME",
      "TYPE",
      "SCHEDULE",
      "SUSPENDED",
      "LAST",
      "NEXT",
      "STATUS",
      "AGE",
    ]);
    expect(row).toMatch(
      /^leap-day\s+webhook\s+0 3 29 2 \*\s.*false\s+\d{4}-02-29T02:00:00Z\s+Active/,
    );
  });

  test("the wide table adds the time zone, how the latest attempt ended, and the name for people", async () => {
    answers.set("/wide", [418]);
    await apply(
      manifest("wide", {
        displayName: "Once in four years",
        schedule: { cron: "0 3 29 2 *", timeZone: "Europe/Paris" },
      }),
    );
    await runNow("wide", "1");
    await statusOf("wide", ({ lastExecution }) => lastExecution !== undefined);
    const row = await carillon.kube(`-n ${TEAM} get sj wide -o wide --no-headers`);
    expect(row).toMatch(
      /\bEurope\/Paris\b.*\bActive\s+Scheduled\s+failed\b.*\bOnce in four years\s*$/,
    );
    const failed = "--field-selector status.lastExecution.status=failed";
    const names = await carillon.kube(`-n ${TEAM} get sj ${failed} -o name`);
    expect(names.trim()).toBe("scheduledjob.carillon.dev/wide");
  });

  test("a job made by REST is a resource", async () => {
    const { status, body } = await rest("POST", "/jobs", {
      name: "By REST",
      type: "webhook",
      schedule_type: "one_time",
      run_at: inSeconds(3),
      webhook_url: `${receiver.url}/by-rest`,
      webhook_payload: { from: "rest" },
    });
    expect(status).toBe(201);
    const { spec } = await get(String(body["id"]));
    expect(spec).toMatchObject({ displayName: "By REST", webhook: { payload: { from: "rest" } } });
    await called("/by-rest");
    expect((await rest("DELETE", `/jobs/${String(body["id"])}`)).status).toBe(200);
    await expect(get(String(body["id"]))).rejects.toThrow("NotFound");
  });

  test("run-now: once for each value", async () => {
    await runNow("leap-day", "first");
    await called("/leap-day");
    await runNow("leap-day", "first");
    await runNow("leap-day", "second");
    await called("/leap-day", 2);
    // After another change the controller sees the same annotation again.
    await carillon.kube(`-n ${TEAM} label sj leap-day touched=yes`);
    await apply(manifest("fence", { schedule: { at: inSeconds(2) } }));
    await called("/fence");
    expect(callsOf("/leap-day")).toHaveLength(2);
  });

  test("run-now of a job that a 410 halted: it runs once more, and stays halted", async () => {
    answers.set("/gone", [410, 200]);
    await apply(manifest("gone", { schedule: { cron: "0 3 * * *" } }));
    await runNow("gone", "first");
    await called("/gone");
    await statusOf("gone", (status) => condition(status, "Ready")?.reason === "Gone");
    await runNow("gone", "second");
    await called("/gone", 2);
    const after = await statusOf(
      "gone",
      (status) => condition(status, "LastRunSucceeded")?.status === "True",
    );
    expect(condition(after, "Ready")?.reason).toBe("Gone");
  });

  test("a payload that is too large: not ready, with what to do, and REST keeps it", async () => {
    const payload = { a: "x".repeat(300_000) };
    const webhook = { url: `${receiver.url}/large`, payload };
    const text = manifest("large", { schedule: { cron: "* * * * *" }, webhook });
    // Not by `apply`, which would keep a copy in an annotation: those must not be so large.
    await carillon.kube("create -f -", text);
    const status = await statusOf(
      "large",
      (each) => condition(each, "Ready")?.reason === "TooLarge",
    );
    expect(condition(status, "Ready")?.message).toMatch(
      /^spec\.webhook\.payload: must be at most 256 KiB and is 293 KiB: shorten it/,
    );
    const shown = await rest("GET", "/jobs/large");
    expect(shown.body).toMatchObject({ status: "invalid", webhook_payload: payload });
    expect((await rest("POST", "/jobs/large/run")).status).toBe(400);
    expect((await rest("PATCH", "/jobs/large", { name: "Large" })).status).toBe(400);
    expect((await rest("POST", "/jobs/large/pause")).status).toBe(200);
    expect((await get("large")).spec).toMatchObject({ suspend: true, webhook });
    const shorter = { webhook_payload: { a: 1 } };
    expect(await rest("PATCH", "/jobs/large", shorter)).toMatchObject({
      status: 200,
      body: { status: "paused", ...shorter },
    });
    expect((await rest("DELETE", "/jobs/large")).status).toBe(200);
  });

  /** As Helm's release `shop` would apply it. */
  const applyRelease = (name: string, spec: Record<string, unknown> = {}) => {
    const labels = { "app.kubernetes.io/managed-by": "Helm" };
    const annotations = {
      "meta.helm.sh/release-name": "shop",
      "meta.helm.sh/release-namespace": TEAM,
    };
    const schedule = { cron: "0 4 * * *" };
    return apply(manifest(name, { schedule, ...spec }, { labels, annotations }));
  };

  test("a job that a GitOps tool owns is changed there", async () => {
    await applyRelease("owned");
    const deleted = await rest("DELETE", "/jobs/owned");
    expect(deleted).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining("Helm") },
    });
    expect((await rest("PATCH", "/jobs/owned", { name: "x" })).status).toBe(409);
    expect((await rest("GET", "/jobs/owned")).status).toBe(200);
  });

  test("such a job is resumed by REST from the halt of a 410, but not from a suspension", async () => {
    answers.set("/shop-nightly", [410]);
    await applyRelease("shop-nightly");
    const { spec } = await get("shop-nightly");
    await runNow("shop-nightly", "first");
    await statusOf("shop-nightly", (status) => condition(status, "Ready")?.reason === "Gone");
    const owned = {
      status: 409,
      body: { code: "job_owned", error: expect.stringContaining("Helm (release team-a/shop)") },
    };
    expect(await rest("POST", "/jobs/shop-nightly/pause")).toMatchObject(owned);
    expect(await rest("POST", "/jobs/shop-nightly/resume")).toMatchObject({
      status: 200,
      body: { status: "active", halted: false },
    });
    const status = await statusOf("shop-nightly", ({ phase }) => phase === "Active");
    expect(condition(status, "Ready")).toMatchObject({ status: "True" });
    expect((await get("shop-nightly")).spec).toEqual(spec);
    await applyRelease("shop-nightly", { suspend: true });
    expect(await rest("POST", "/jobs/shop-nightly/resume")).toMatchObject(owned);
  });

  test("a namespace without an account: not ready, with a reason, and no runs", async () => {
    await carillon.kube("create namespace nobody");
    await apply(manifest("lost", { schedule: { at: inSeconds(1) } }, { namespace: "nobody" }));
    const status = await statusOf(
      "lost",
      (each) => condition(each, "Ready") !== undefined,
      "nobody",
    );
    expect(condition(status, "Ready")).toMatchObject({ status: "False", reason: "NoAccount" });
    // It is not suspended; the wide table says why it is paused all the same.
    expect(await carillon.kube("-n nobody get sj lost -o wide")).toMatch(
      /\bfalse\b.*\bPaused\s+NoAccount\b/,
    );
    await until("the event", async () =>
      (await carillon.kube("-n nobody get events")).includes("NoAccount") ? true : undefined,
    );
    expect(callsOf("/lost")).toEqual([]);
    expect((await rest("GET", "/jobs/lost")).status).toBe(404);
  });

  test("a failed run shows in conditions and events", async () => {
    answers.set("/failing", [418]);
    await apply(manifest("failing", { schedule: { at: inSeconds(2) } }));
    const status = await statusOf("failing", ({ phase }) => phase === "Failed");
    expect(condition(status, "LastRunSucceeded")).toMatchObject({ status: "False" });
    await until("the event", async () =>
      /RunFailed.*418/.test(await carillon.kube(`-n ${TEAM} describe sj failing`))
        ? true
        : undefined,
    );
  });

  test("headersFrom: a released Secret's value is sent, another's is not", async () => {
    const names = ["released", "private"];
    for (const name of names)
      await carillon.kube(`-n ${TEAM} create secret generic ${name} --from-literal=token=s3cret`);
    await carillon.kube(`-n ${TEAM} label secret released carillon.dev/webhook-headers=true`);
    for (const name of names) {
      const headersFrom = [{ header: "Authorization", secretKeyRef: { name, key: "token" } }];
      const webhook = { url: `${receiver.url}/${name}`, headersFrom };
      await apply(manifest(name, { schedule: { at: inSeconds(2) }, webhook }));
    }
    const [call] = await called("/released");
    expect(call?.headers.authorization).toBe("s3cret");
    const status = await statusOf("private", ({ phase }) => phase === "Failed");
    expect(condition(status, "LastRunSucceeded")?.message).toContain(
      "carillon.dev/webhook-headers=true",
    );
    expect(callsOf("/private")).toEqual([]);
  });

  test("kill -9 of the leader: the next fire time is kept, and runs once", async () => {
    // Far enough ahead that the leader has been found and killed before, even on a busy machine.
    const at = inSeconds(15);
    await apply(manifest("kept", { schedule: { at } }));
    await statusOf("kept", ({ nextScheduleTime }) => nextScheduleTime !== undefined);
    const old = await leader();
    await old.end("SIGKILL");
    controllers.delete(old.name);
    // A lease that was not given back expires after 15 s, and candidates look every 2 to 4.4 s.
    const [call] = await called("/kept", 1, 60_000);
    expect(call?.headers["carillon-scheduled-at"]).toBe(at);
    expect((await leader()).name).not.toBe(old.name);
    await statusOf("kept", ({ phase }) => phase === "Completed");
    expect(callsOf("/kept")).toHaveLength(1);
    controllers.set(old.name, await carillon.controller(old.name));
  }, 120_000);

  test("the API server away: REST says 503, what is queued is delivered, then all goes on", async () => {
    answers.set("/retried", [503, 200]);
    await apply(
      manifest("retried", {
        schedule: { at: inSeconds(2) },
        retry: { maxRetries: 2, minBackoffSeconds: 3, maxBackoffSeconds: 3 },
      }),
    );
    await apply(manifest("missed", { schedule: { at: inSeconds(8) } }));
    await called("/retried");
    await controlPlane.apiServer.stop("SIGKILL");
    await called("/retried", 2, 20_000);
    const began = performance.now();
    const { status, body } = await rest("GET", "/jobs");
    expect({ status, body }).toMatchObject({ status: 503, body: { code: expect.any(String) } });
    // The answer comes in time.
    expect(performance.now() - began).toBeLessThan(10_000);
    await controlPlane.restart();
    await called("/missed", 1, 60_000);
    expect((await rest("GET", "/jobs")).status).toBe(200);
    await statusOf("missed", ({ phase }) => phase === "Completed");
    expect(callsOf("/missed")).toHaveLength(1);
    expect(callsOf("/retried")).toHaveLength(2);
  }, 180_000);

  test("etcd is restored, and a job changed since: it runs as it is, although its generation is known", async () => {
    await apply(manifest("restored", { schedule: { cron: "0 0 1 1 *" } }));
    await controlPlane.backup();
    expect(await setVersion("restored", 2)).toBe("2");
    await sends("restored", 2);
    // After the outage before, one controller may have recovered later than the other.
    await everyController("has listed", (controller) => !isStale(controller));
    await controlPlane.apiServer.stop("SIGKILL");
    await everyController("is going to list", isStale);
    // No controller sees the generation in between.
    for (const process of controllers.values()) process.signal("SIGSTOP");
    await controlPlane.restore();
    expect(await setVersion("restored", 3)).toBe("2");
    for (const process of controllers.values()) process.signal("SIGCONT");
    // A leader has to be elected first, and all jobs have to be listed.
    await sends("restored", 3, 60_000);
  }, 180_000);

  test("an open circuit shows in the jobs of its destination", async () => {
    const webhook = { url: "http://127.0.0.1:9/" };
    const failing = Array.from({ length: 12 }, (_, n) =>
      JSON.parse(manifest(`refused-${n}`, { schedule: { at: inSeconds(2) }, webhook })),
    );
    await apply(JSON.stringify({ apiVersion: "v1", kind: "List", items: failing }));
    await apply(manifest("behind-it", { schedule: { cron: "0 3 1 1 *" }, webhook }));
    const type = "DestinationReachable";
    const status = await statusOf("behind-it", (each) => condition(each, type)?.status === "False");
    expect(condition(status, type)).toMatchObject({ reason: "CircuitOpen" });
  });

  test("a one-time that has long been over is deleted if REST made it, and its history stays", async () => {
    const spec = {
      name: "Reminder",
      type: "webhook",
      schedule_type: "one_time",
      run_at: inSeconds(2),
      webhook_url: `${receiver.url}/over`,
    };
    const made = String((await rest("POST", "/jobs", spec)).body["id"]);
    // Also a job that was applied under a name as the gateway would give it.
    const applied = "job-0123456789abcdef0123456789abcdef";
    await apply(manifest(applied, { schedule: { at: inSeconds(2) } }));
    for (const name of [made, applied]) await statusOf(name, ({ phase }) => phase === "Completed");
    const pool = createPool({ url: database.url, applicationName: "test" });
    const old = "clock_timestamp() - interval '91 days'";
    await pool.query(
      `update job_cursors set position = ${old}, last_executed_at = ${old}, version = version + 1
        where job_id = any($1)`,
      [[made, applied]],
    );
    await pool.end();

    const second = await carillon.gateway("gateway-1");
    await until("it is gone", async () => (await rest("GET", `/jobs/${made}`)).status === 404);
    expect(await second.end()).toBe(0);
    expect(second.stdout()).toContain('"finished one-time jobs","count":1');
    expect((await get(applied)).metadata.name).toBe(applied);
    const { status, body } = await rest("GET", `/jobs/${made}/executions`);
    expect({ status, body }).toMatchObject({ status: 200, body: [{ status: "success" }] });
  });

  test("SIGTERM ends every process in order, and uninstalling keeps the jobs", async () => {
    const ends = [...controllers.values(), gateway].map((process) => process.end());
    expect(await Promise.all(ends)).toEqual([0, 0, 0]);
    // Circuits of processes that have ended count for no job.
    const pool = createPool({ url: database.url, applicationName: "test" });
    expect(await createCircuits({ pool }).listAll()).toEqual([]);
    await pool.end();
    const path = `-n ${HOME} get lease carillon-controller -o jsonpath={.spec.holderIdentity}`;
    expect(await carillon.kube(path)).toBe("");
    await carillon.uninstall();
    expect(await carillon.kube(`-n ${HOME} get leases -o name`)).toBe("");
    expect((await get("leap-day")).metadata.name).toBe("leap-day");
    expect(await carillon.kube(`-n ${HOME} get secrets -o name`)).toBe(
      "secret/carillon-generated\n",
    );
  }, 60_000);
});
